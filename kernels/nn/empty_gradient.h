#pragma once
#include <troupe/kernels/tensor/stream.h>

namespace troupe::nn {

/// Memory for a layer's gradient on the stream's device: of the CPU such as other processes can read where it is.
inline Tensor empty_gradient(Stream& stream, Shape shape, DType dtype) {
  return stream.device().kind == DeviceKind::cpu ? Tensor::to_lend(shape, dtype) : stream.empty(shape, dtype);
}

}  // namespace troupe::nn
