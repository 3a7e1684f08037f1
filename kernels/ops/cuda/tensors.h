#pragma once
#include <troupe/kernels/ops/internal/tensors.h>

namespace troupe::ops::cuda {

inline void expect(const Tensor& t, DType dtype, const Shape& shape, const char* name) {
  TROUPE_CHECK(t, name, " is an empty tensor, expected ", shape);
  TROUPE_CHECK(t.device().kind == DeviceKind::cuda, name, " is not in a GPU's memory");
  TROUPE_CHECK(t.dtype() == dtype, name, " is ", name_of(t.dtype()), ", expected ", name_of(dtype));
  TROUPE_CHECK(t.shape() == shape, name, " is ", t.shape(), ", expected ", shape);
}

}  // namespace troupe::ops::cuda
