#include <algorithm>

#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>

// Built without fused multiply-add (kernels/CMakeLists.txt): the contract rounds every product.

namespace troupe::ops::cpu {
namespace {

void fill(Stream& stream, double value, Tensor& y) {
  expect_dims(y, 0, Shape::kMaxDims, "y");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = y.data<T>();
    split(stream, y.count(), 1,
          [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, static_cast<T>(value)); });
  });
}

void copy(Stream& stream, const Tensor& x, Tensor& y) {
  expect_like(x, y, "x");
  split(stream, static_cast<int64_t>(x.bytes()), 1, [&](int64_t begin, int64_t end) {
    std::memmove(y.raw() + begin, x.raw() + begin, static_cast<size_t>(end - begin));
  });
}

void add(Stream& stream, const Tensor& a, const Tensor& b, Tensor& y) {
  expect_like(a, y, "a");
  expect_like(b, y, "b");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *p = a.data<T>(), *q = b.data<T>();
    T* to = y.data<T>();
    split(stream, y.count(), 1, [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) to[i] = p[i] + q[i];
    });
  });
}

void scale(Stream& stream, double alpha, Tensor& y) {
  expect_dims(y, 0, Shape::kMaxDims, "y");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T factor = static_cast<T>(alpha);
    T* to = y.data<T>();
    split(stream, y.count(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] *= factor;
    });
  });
}

void axpy(Stream& stream, double alpha, const Tensor& x, Tensor& y) {
  expect_like(x, y, "x");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T factor = static_cast<T>(alpha);
    const T* p = x.data<T>();
    T* to = y.data<T>();
    split(stream, y.count(), 1, [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) to[i] += factor * p[i];
    });
  });
}

}  // namespace

ElementwiseOps elementwise_ops() {
  return {fill, copy, add, scale, axpy};
}

}  // namespace troupe::ops::cpu
