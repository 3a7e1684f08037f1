#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/sums.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>

namespace troupe::ops::cpu {
namespace {

template <class T, bool kRelu>
void add_rows(const Stream& stream, Channels shape, const T* x, const T* bias, T* y) {
  const auto at = [](T sum) { return kRelu && sum < T{0} ? T{0} : sum; };
  split(stream, shape.outer, shape.count * shape.inner, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row * shape.count * shape.inner;
      if (shape.inner == 1) {
#pragma GCC ivdep
        for (int64_t c = 0; c < shape.count; ++c) y[first + c] = at(x[first + c] + bias[c]);
        continue;
      }
      for (int64_t c = 0; c < shape.count; ++c) {
        const T b = bias[c];
        const int64_t channel = first + c * shape.inner;
#pragma GCC ivdep
        for (int64_t i = channel; i < channel + shape.inner; ++i) y[i] = at(x[i] + b);
      }
    }
  });
}

void bias_add(Stream& stream, const Tensor& x, const Tensor& bias, Epilogue epilogue, Tensor& y) {
  const Channels shape(x, "x");
  expect(bias, x.dtype(), {shape.count}, "bias");
  expect(y, x.dtype(), x.shape(), "y");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto rows = epilogue == Epilogue::relu ? add_rows<T, true> : add_rows<T, false>;
    rows(stream, shape, x.data<T>(), bias.data<T>(), y.data<T>());
  });
}

void bias_gradient(Stream&, const Tensor& dy, Write write, Tensor& dbias) {
  const Channels shape(dy, "dy");
  expect(dbias, dy.dtype(), {shape.count}, "dbias");
  dispatch(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* d = dy.data<T>();
    store(channel_sums<T>(shape.outer, shape.count, shape.inner,
                          [=](int64_t, int64_t, int64_t i) { return d[i]; }),
          write, dbias.data<T>());
  });
}

}  // namespace

BiasOps bias_ops() {
  return {bias_add, bias_gradient};
}

}  // namespace troupe::ops::cpu
