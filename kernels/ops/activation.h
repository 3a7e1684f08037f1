#pragma once
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// Functions of single elements; all tensors of a call have one shape.
struct ActivationOps {
  /// y = max(x, 0); NaN stays NaN. y may be x.
  void (*relu)(Stream&, const Tensor& x, Tensor& y);

  /// dx = y > 0 ? dy : 0, where y is what `relu` returned (so a layer keeps only its output). dx may be dy.
  /// Before a max pool this can be done after the pool's windows were chosen: max(relu(x)) = relu(max(x)), so
  /// masking the pooled gradient with the pooled output gives the same dx at a quarter of the work.
  void (*relu_gradient)(Stream&, const Tensor& y, const Tensor& dy, Tensor& dx);

  /// y = x Phi(x) = x/2 (1 + erf(x / sqrt 2)): the exact form (Hendrycks and Gimpel 2016), not the tanh
  /// approximation. In f32 the error is below 3e-7 (1 + |x|). y may be x.
  void (*gelu)(Stream&, const Tensor& x, Tensor& y);

  /// dx = dy (Phi(x) + x phi(x)), phi the normal density, x the input of `gelu`. dx may be dy.
  void (*gelu_gradient)(Stream&, const Tensor& x, const Tensor& dy, Tensor& dx);
};

}  // namespace troupe::ops
