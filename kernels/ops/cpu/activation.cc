#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/gelu.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>

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

template <class Form>
void gelu(Stream& stream, const Tensor& x, Tensor& y) {
  expect_dims(x, 0, Shape::kMaxDims, "x");
  expect(y, x.dtype(), x.shape(), "y");
  map(stream, x, x, y, [](auto v, auto) { return Form::value(v); });
}

template <class Form>
void gelu_gradient(Stream& stream, const Tensor& x, const Tensor& dy, Tensor& dx) {
  expect_dims(x, 0, Shape::kMaxDims, "x");
  expect(dy, x.dtype(), x.shape(), "dy");
  expect(dx, x.dtype(), x.shape(), "dx");
  map(stream, x, dy, dx, [](auto v, auto d) { return d * Form::slope(v); });
}

// Checks that x is [m, 2 w] and y [m, w].
void expect_gated(const Tensor& x, const Tensor& y, const char* name) {
  expect_dims(x, 2, 2, "x");
  TROUPE_CHECK(x.shape()[1] % 2 == 0, "x is ", x.shape(), ": gates and values must be equally many");
  expect(y, x.dtype(), {x.shape()[0], x.shape()[1] / 2}, name);
}

void swiglu(Stream& stream, const Tensor& x, Tensor& y) {
  expect_gated(x, y, "y");
  const int64_t m = y.shape()[0], w = y.shape()[1];
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.data<T>();
    T* to = y.data<T>();
    split(stream, m, w, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T *a = from + 2 * r * w, *b = a + w;
        T* out = to + r * w;
#pragma GCC ivdep
        for (int64_t i = 0; i < w; ++i) out[i] = a[i] * sigmoid(a[i]) * b[i];
      }
    });
  });
}

void swiglu_gradient(Stream& stream, const Tensor& x, const Tensor& dy, Tensor& dx) {
  expect_gated(x, dy, "dy");
  expect(dx, x.dtype(), x.shape(), "dx");
  const int64_t m = dy.shape()[0], w = dy.shape()[1];
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *from = x.data<T>(), *grad = dy.data<T>();
    T* to = dx.data<T>();
    split(stream, m, w, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T *a = from + 2 * r * w, *b = a + w, *d = grad + r * w;
        T *da = to + 2 * r * w, *db = da + w;
#pragma GCC ivdep
        for (int64_t i = 0; i < w; ++i) {
          const T gate = a[i], s = sigmoid(gate);
          da[i] = d[i] * b[i] * s * (T{1} + gate * (T{1} - s));
          db[i] = d[i] * gate * s;
        }
      }
    });
  });
}

}  // namespace

ActivationOps activation_ops() {
  return {relu,           relu_gradient,           gelu<Gelu>, gelu_gradient<Gelu>,
          gelu<GeluTanh>, gelu_gradient<GeluTanh>, swiglu,     swiglu_gradient};
}

}  // namespace troupe::ops::cpu
