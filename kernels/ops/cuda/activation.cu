#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/gelu.cuh>
#include <troupe/kernels/ops/cuda/map.cuh>
#include <troupe/kernels/ops/cuda/swiglu.cuh>

namespace troupe::ops::cuda {
namespace {

struct Relu {
  template <class T>
  __device__ T operator()(T x) const {
    return x < T{0} ? T{0} : x;
  }
};

struct ReluGradient {
  template <class T>
  __device__ T operator()(T y, T dy) const {
    return y > T{0} ? dy : T{0};
  }
};

template <class Form>
struct Value {
  template <class T>
  __device__ T operator()(T x) const {
    return Form::value(x);
  }
};

template <class Form>
struct Gradient {
  template <class T>
  __device__ T operator()(T x, T dy) const {
    return dy * Form::slope(x);
  }
};

// y = f(a) or f(a, b), all of a's shape.
template <class F>
void of_one(Stream& stream, F f, const Tensor& x, Tensor& y) {
  expect(x, x.dtype(), x.shape(), "x");
  expect(y, x.dtype(), x.shape(), "y");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(stream, x.count(), f, y.data<T>(), x.data<T>());
  });
}

template <class F>
void of_two(Stream& stream, F f, const Tensor& a, const char* name, const Tensor& dy, Tensor& dx) {
  expect(a, a.dtype(), a.shape(), name);
  expect(dy, a.dtype(), a.shape(), "dy");
  expect(dx, a.dtype(), a.shape(), "dx");
  dispatch(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(stream, a.count(), f, dx.data<T>(), a.data<T>(), dy.data<T>());
  });
}

void relu(Stream& stream, const Tensor& x, Tensor& y) { of_one(stream, Relu{}, x, y); }

void relu_gradient(Stream& stream, const Tensor& y, const Tensor& dy, Tensor& dx) {
  of_two(stream, ReluGradient{}, y, "y", dy, dx);
}

template <class Form>
void gelu(Stream& stream, const Tensor& x, Tensor& y) {
  of_one(stream, Value<Form>{}, x, y);
}

template <class Form>
void gelu_gradient(Stream& stream, const Tensor& x, const Tensor& dy, Tensor& dx) {
  of_two(stream, Gradient<Form>{}, x, "x", dy, dx);
}

// Checks that x is [m, 2 w] and y [m, w].
void expect_gated(const Tensor& x, const Tensor& y, const char* name) {
  expect_dims(x, 2, 2, "x");
  expect(x, x.dtype(), x.shape(), "x");
  TROUPE_CHECK(x.shape()[1] % 2 == 0, "x is ", x.shape(), ": gates and values must be equally many");
  expect(y, x.dtype(), {x.shape()[0], x.shape()[1] / 2}, name);
}

void swiglu(Stream& stream, const Tensor& x, Tensor& y) {
  expect_gated(x, y, "y");
  const int64_t n = y.count(), w = y.shape()[1];
  if (n == 0) return;
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWide = kWidest<T>;
    const T* from = x.data<T>();
    T* to = y.data<T>();
    if (w % kWide == 0 && aligned(kWide, from, to))
      TROUPE_LAUNCH((swiglu_elements<kWide, T>), blocks_for(n, kBlockThreads * kWide), kBlockThreads, 0, stream, n, w,
                    from, to);
    else
      TROUPE_LAUNCH((swiglu_elements<1, T>), blocks_for(n), kBlockThreads, 0, stream, n, w, from, to);
  });
}

void swiglu_gradient(Stream& stream, const Tensor& x, const Tensor& dy, Tensor& dx) {
  expect_gated(x, dy, "dy");
  expect(dx, x.dtype(), x.shape(), "dx");
  const int64_t n = dy.count(), w = dy.shape()[1];
  if (n == 0) return;
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWide = kWidest<T>;
    const T *from = x.data<T>(), *d = dy.data<T>();
    T* to = dx.data<T>();
    if (w % kWide == 0 && aligned(kWide, from, d, to))
      TROUPE_LAUNCH((swiglu_gradient_elements<kWide, T>), blocks_for(n, kBlockThreads * kWide), kBlockThreads, 0,
                    stream, n, w, from, d, to);
    else
      TROUPE_LAUNCH((swiglu_gradient_elements<1, T>), blocks_for(n), kBlockThreads, 0, stream, n, w, from, d, to);
  });
}

}  // namespace

ActivationOps activation_ops() {
  return {relu,           relu_gradient,           gelu<Gelu>, gelu_gradient<Gelu>,
          gelu<GeluTanh>, gelu_gradient<GeluTanh>, swiglu,     swiglu_gradient};
}

}  // namespace troupe::ops::cuda
