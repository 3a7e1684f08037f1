#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/half.cuh>
#include <troupe/kernels/ops/cuda/map.cuh>

namespace troupe::ops::cuda {
namespace {

template <class To>
struct Convert {
  template <class From>
  __device__ To operator()(From x) const {
    return narrowed<To>(widened(x));
  }
  __device__ To operator()(double x) const { return narrowed<To>(static_cast<float>(x)); }
};

template <>
struct Convert<double> {
  template <class From>
  __device__ double operator()(From x) const {
    return static_cast<double>(widened(x));
  }
};

// Calls body(T{}) with the C++ type of any floating-point dtype.
template <class Body>
void dispatch_any(DType dtype, Body body) {
  if (dtype == DType::f16) return body(Half{});
  if (dtype == DType::bf16) return body(BFloat16{});
  dispatch(dtype, body);
}

void cast(Stream& stream, const Tensor& x, Tensor& y) {
  expect(x, x.dtype(), x.shape(), "x");
  expect(y, y.dtype(), y.shape(), "y");
  TROUPE_CHECK(x.count() == y.count(), "x is ", x.shape(), ", y is ", y.shape());
  dispatch_any(x.dtype(), [&](auto from) {
    dispatch_any(y.dtype(), [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      if constexpr (std::is_same_v<From, To>)
        elementwise_ops().copy(stream, x, y);
      else
        map(stream, x.count(), Convert<To>{}, y.data<To>(), x.data<From>());
    });
  });
}

}  // namespace

CastOps cast_ops() { return {cast}; }

}  // namespace troupe::ops::cuda
