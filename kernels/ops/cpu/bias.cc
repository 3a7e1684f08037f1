#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/gelu.h>
#include <troupe/kernels/ops/cpu/sums.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>

namespace troupe::ops::cpu {
namespace {

struct Unchanged {
  template <class T>
  static T value(T x) {
    return x;
  }
};

struct Relu {
  template <class T>
  static T value(T x) {
    return x < T{0} ? T{0} : x;
  }
};

template <class Function, class T>
void add_rows(const Stream& stream, Channels shape, const T* x, const T* bias, T* y) {
  split(stream, shape.outer, shape.count * shape.inner, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row * shape.count * shape.inner;
      if (shape.inner == 1) {
#pragma GCC ivdep
        for (int64_t c = 0; c < shape.count; ++c) y[first + c] = Function::value(x[first + c] + bias[c]);
        continue;
      }
      for (int64_t c = 0; c < shape.count; ++c) {
        const T b = bias[c];
        const int64_t channel = first + c * shape.inner;
#pragma GCC ivdep
        for (int64_t i = channel; i < channel + shape.inner; ++i) y[i] = Function::value(x[i] + b);
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
    const auto rows = epilogue == Epilogue::relu        ? add_rows<Relu, T>
                      : epilogue == Epilogue::gelu      ? add_rows<Gelu, T>
                      : epilogue == Epilogue::gelu_tanh ? add_rows<GeluTanh, T>
                                                        : add_rows<Unchanged, T>;
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

// The sums as bias_gradient takes them, whatever the number of threads: of kSumRows rows in T, and those in double
// precision.
template <class Form, class T>
void gelu_rows_back(const Stream& stream, Channels shape, const T* x, const T* bias, const T* dy, Write write, T* dx,
                    T* dbias) {
  const int64_t n = shape.count, blocks = (shape.outer + kSumRows - 1) / kSumRows;
  std::vector<T> partial(static_cast<size_t>(blocks * n));
  split(stream, blocks, kSumRows * n, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * kSumRows; row < std::min(end * kSumRows, shape.outer); ++row) {
      T* const sum = partial.data() + row / kSumRows * n;
      const int64_t first = row * n;
#pragma GCC ivdep
      for (int64_t c = 0; c < n; ++c) {
        const T d = dy[first + c] * Form::slope(x[first + c] + bias[c]);
        dx[first + c] = d;
        sum[c] += d;
      }
    }
  });
  std::vector<double> sums(static_cast<size_t>(n));
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t c = 0; c < n; ++c) sums[static_cast<size_t>(c)] += partial[static_cast<size_t>(block * n + c)];
  store(sums, write, dbias);
}

void bias_gelu_gradient(Stream& stream, const Tensor& x, const Tensor& bias, Epilogue gelu, const Tensor& dy,
                        Write write, Tensor& dx, Tensor& dbias) {
  expect_dims(x, 2, 2, "x");
  const Channels shape(x, "x");
  expect(bias, x.dtype(), {shape.count}, "bias");
  expect(dy, x.dtype(), x.shape(), "dy");
  expect(dx, x.dtype(), x.shape(), "dx");
  expect(dbias, x.dtype(), {shape.count}, "dbias");
  TROUPE_CHECK(gelu == Epilogue::gelu || gelu == Epilogue::gelu_tanh, "epilogue ", static_cast<int>(gelu),
               " is no gelu");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto back = gelu == Epilogue::gelu ? gelu_rows_back<Gelu, T> : gelu_rows_back<GeluTanh, T>;
    back(stream, shape, x.data<T>(), bias.data<T>(), dy.data<T>(), write, dx.data<T>(), dbias.data<T>());
  });
}

}  // namespace

BiasOps bias_ops() {
  return {bias_add, bias_gradient, bias_gelu_gradient};
}

}  // namespace troupe::ops::cpu
