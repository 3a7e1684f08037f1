#pragma once
#include <troupe/kernels/tensor/tensor.h>

/// The checks at the door of every op, on any device: what its contract says about a tensor. `name` is the contract's.
namespace troupe::ops {

inline void expect_dims(const Tensor& t, int least, int most, const char* name) {
  TROUPE_CHECK(t, name, " is an empty tensor");
  TROUPE_CHECK(t.shape().dims() >= least && t.shape().dims() <= most, name, " is ", t.shape(), ", expected ",
               least, " to ", most, " dimensions");
}

/// Equal counts and dtypes, whatever the shapes.
inline void expect_like(const Tensor& t, const Tensor& model, const char* name) {
  TROUPE_CHECK(t && model, name, " or what it is combined with is an empty tensor");
  TROUPE_CHECK(t.dtype() == model.dtype(), name, " is ", name_of(t.dtype()), ", expected ",
               name_of(model.dtype()));
  TROUPE_CHECK(t.count() == model.count(), name, " is ", t.shape(), ", expected as many elements as ",
               model.shape());
}

/// Calls body(T{}) with the C++ type of a floating-point dtype.
template <class Body>
void dispatch(DType dtype, Body body) {
  TROUPE_CHECK(dtype == DType::f32 || dtype == DType::f64, "expected F32 or F64, not ", name_of(dtype));
  if (dtype == DType::f32)
    body(float{});
  else
    body(double{});
}

/// A tensor seen as [outer, channels, inner], where dimension 1 is the channel.
struct Channels {
  int64_t outer = 0, count = 0, inner = 1;

  Channels(const Tensor& x, const char* name) {
    expect_dims(x, 2, Shape::kMaxDims, name);
    outer = x.shape()[0];
    count = x.shape()[1];
    for (int i = 2; i < x.shape().dims(); ++i) inner *= x.shape()[i];
  }
};

}  // namespace troupe::ops
