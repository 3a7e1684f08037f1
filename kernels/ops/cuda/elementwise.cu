#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/map.cuh>
#include <troupe/kernels/ops/cuda/math.cuh>

namespace troupe::ops::cuda {
namespace {

template <class T>
struct Same {
  T value;
  __device__ T operator()() const { return value; }
};

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return sum(a, b);
  }
};

template <class T>
struct Scaled {
  T factor;
  __device__ T operator()(T y) const { return product(factor, y); }
};

template <class T>
struct ScaledSum {
  T factor;
  __device__ T operator()(T x, T y) const { return sum(product(factor, x), y); }
};

void fill(Stream& stream, double value, Tensor& y) {
  expect(y, y.dtype(), y.shape(), "y");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(stream, y.count(), Same<T>{static_cast<T>(value)}, y.data<T>());
  });
}

void copy(Stream& stream, const Tensor& x, Tensor& y) {
  expect_like(x, y, "x");
  Tensor flat = y.reshaped(x.shape());
  stream.copy(x, flat);
}

void add(Stream& stream, const Tensor& a, const Tensor& b, Tensor& y) {
  expect_like(a, y, "a");
  expect_like(b, y, "b");
  expect(y, y.dtype(), y.shape(), "y");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(stream, y.count(), Sum{}, y.data<T>(), a.data<T>(), b.data<T>());
  });
}

void scale(Stream& stream, double alpha, Tensor& y) {
  expect(y, y.dtype(), y.shape(), "y");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(stream, y.count(), Scaled<T>{static_cast<T>(alpha)}, y.data<T>(), std::as_const(y).data<T>());
  });
}

void axpy(Stream& stream, double alpha, const Tensor& x, Tensor& y) {
  expect_like(x, y, "x");
  expect(y, y.dtype(), y.shape(), "y");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(stream, y.count(), ScaledSum<T>{static_cast<T>(alpha)}, y.data<T>(), x.data<T>(), std::as_const(y).data<T>());
  });
}

}  // namespace

ElementwiseOps elementwise_ops() { return {fill, copy, add, scale, axpy}; }

}  // namespace troupe::ops::cuda
