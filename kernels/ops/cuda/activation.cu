#include <numbers>

#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/map.cuh>
#include <troupe/kernels/ops/cuda/math.cuh>
#include <troupe/kernels/ops/cuda/tensors.h>

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

template <class T>
__device__ T normal_integral(T x) {
  return (T{1} + erf_of(x * static_cast<T>(std::numbers::sqrt2 / 2))) / T{2};
}

struct Gelu {
  template <class T>
  __device__ T operator()(T x) const {
    return x * normal_integral(x);
  }
};

struct GeluGradient {
  template <class T>
  __device__ T operator()(T x, T dy) const {
    constexpr T kPeak = static_cast<T>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);  // the density at 0
    return dy * (normal_integral(x) + x * kPeak * exp_of(x * x / T{-2}));
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

void gelu(Stream& stream, const Tensor& x, Tensor& y) { of_one(stream, Gelu{}, x, y); }

void gelu_gradient(Stream& stream, const Tensor& x, const Tensor& dy, Tensor& dx) {
  of_two(stream, GeluGradient{}, x, "x", dy, dx);
}

}  // namespace

ActivationOps activation_ops() { return {relu, relu_gradient, gelu, gelu_gradient}; }

}  // namespace troupe::ops::cuda
