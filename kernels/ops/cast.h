#pragma once
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// From one floating-point dtype to another.
struct CastOps {
  /// y = x, where each is f32, f64, f16 or bf16, of equal counts. Rounded once, to nearest, ties to even (f64 to f16
  /// or bf16: by way of f32); what f16 cannot hold becomes infinity, a NaN stays one (kernels/tensor/half.h).
  void (*cast)(Stream&, const Tensor& x, Tensor& y);
};

}  // namespace troupe::ops
