#pragma once
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// Vector arithmetic: tensors of a call have equal counts (shapes may differ). Scalars are rounded to the
/// tensors' dtype first; every product and every sum is rounded by itself (no fused multiply-add), so any
/// backend gives the same bits.
struct ElementwiseOps {
  /// y = value.
  void (*fill)(Stream&, double value, Tensor& y);
  /// y = x, of any dtype.
  void (*copy)(Stream&, const Tensor& x, Tensor& y);
  /// y = a + b; y may be a or b.
  void (*add)(Stream&, const Tensor& a, const Tensor& b, Tensor& y);
  /// y = alpha y.
  void (*scale)(Stream&, double alpha, Tensor& y);
  /// y = alpha x + y.
  void (*axpy)(Stream&, double alpha, const Tensor& x, Tensor& y);
};

}  // namespace troupe::ops
