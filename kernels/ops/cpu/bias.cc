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

// dx[i] = y[i] > 0 ? dy[i] : 0 for i in [begin, end).
template <class T>
void mask(const T* y, const T* dy, int64_t begin, int64_t end, T* dx) {
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    const T d = dy[i];  // read in any case: a load under a condition does not vectorise
    dx[i] = y[i] > T{0} ? d : T{0};
  }
}

// Masks, and adds up what is still in the cache.
template <class T>
std::vector<double> masked_sums(const Channels& shape, const T* y, const T* dy, T* dx) {
  std::vector<double> sums(static_cast<size_t>(shape.count));
  if (shape.inner == 1) {
    mask(y, dy, 0, shape.outer * shape.count, dx);
    return channel_sums<T>(shape.outer, shape.count, 1, [=](int64_t, int64_t, int64_t i) { return dx[i]; });
  }
  for (int64_t row = 0; row < shape.outer * shape.count; ++row) {
    const int64_t first = row * shape.inner;
    mask(y, dy, first, first + shape.inner, dx);
    sums[static_cast<size_t>(row % shape.count)] +=
        lane_sum<T>(shape.inner, [=](int64_t i) { return dx[first + i]; });
  }
  return sums;
}

void relu_bias_gradient(Stream&, const Tensor& y, const Tensor& dy, Write write, Tensor& dx, Tensor& dbias) {
  const Channels shape(y, "y");
  expect(dy, y.dtype(), y.shape(), "dy");
  expect(dx, y.dtype(), y.shape(), "dx");
  expect(dbias, y.dtype(), {shape.count}, "dbias");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    store(masked_sums(shape, y.data<T>(), dy.data<T>(), dx.data<T>()), write, dbias.data<T>());
  });
}

}  // namespace

BiasOps bias_ops() {
  return {bias_add, bias_gradient, relu_bias_gradient};
}

}  // namespace troupe::ops::cpu
