#include <numbers>

#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>
#include <troupe/kernels/ops/cpu/vector_math.h>

namespace troupe::ops::cpu {
namespace {

// y[i] = f(a[i], b[i]); y may be a or b.
template <class F>
void map(const Stream& stream, const Tensor& a, const Tensor& b, Tensor& y, F f) {
  dispatch(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *p = a.data<T>(), *q = b.data<T>();
    T* to = y.data<T>();
    split(stream, a.count(), 1, [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) to[i] = f(p[i], q[i]);
    });
  });
}

template <class T>
T phi_integral(T x) {
  return (T{1} + erf_of(x * static_cast<T>(std::numbers::sqrt2 / 2))) / 2;
}

void relu(Stream& stream, const Tensor& x, Tensor& y) {
  expect_dims(x, 0, Shape::kMaxDims, "x");
  expect(y, x.dtype(), x.shape(), "y");
  map(stream, x, x, y, [](auto v, auto) { return v < 0 ? decltype(v){0} : v; });
}

void relu_gradient(Stream& stream, const Tensor& y, const Tensor& dy, Tensor& dx) {
  expect_dims(y, 0, Shape::kMaxDims, "y");
  expect(dy, y.dtype(), y.shape(), "dy");
  expect(dx, y.dtype(), y.shape(), "dx");
  map(stream, y, dy, dx, [](auto v, auto d) { return v > 0 ? d : decltype(d){0}; });
}

void gelu(Stream& stream, const Tensor& x, Tensor& y) {
  expect_dims(x, 0, Shape::kMaxDims, "x");
  expect(y, x.dtype(), x.shape(), "y");
  map(stream, x, x, y, [](auto v, auto) { return v * phi_integral(v); });
}

void gelu_gradient(Stream& stream, const Tensor& x, const Tensor& dy, Tensor& dx) {
  expect_dims(x, 0, Shape::kMaxDims, "x");
  expect(dy, x.dtype(), x.shape(), "dy");
  expect(dx, x.dtype(), x.shape(), "dx");
  map(stream, x, dy, dx, [](auto v, auto d) {
    using T = decltype(v);
    constexpr T kPeak = static_cast<T>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);  // phi(0)
    return d * (phi_integral(v) + v * kPeak * exp_of(v * v / T{-2}));
  });
}

}  // namespace

ActivationOps activation_ops() {
  return {relu, relu_gradient, gelu, gelu_gradient};
}

}  // namespace troupe::ops::cpu
