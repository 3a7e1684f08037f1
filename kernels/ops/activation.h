#pragma once
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// Functions of single elements; all tensors of a call have one shape, but for swiglu.
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

  /// y = x/2 (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3): the approximation that GPT-2 was trained with, up to
  /// 5e-4 from `gelu`. y may be x.
  void (*gelu_tanh)(Stream&, const Tensor& x, Tensor& y);

  /// dx = dy ((1 + tanh(u)) / 2 + x/2 (1 - tanh(u)^2) sqrt(2 / pi) (1 + 3 0.044715 x^2)), x the input of `gelu_tanh`.
  /// dx may be dy.
  void (*gelu_tanh_gradient)(Stream&, const Tensor& x, const Tensor& dy, Tensor& dx);

  /// Shazeer 2020: x[m, 2 w] is a gate a and a value b side by side, y[m, w] = a / (1 + e^-a) b.
  void (*swiglu)(Stream&, const Tensor& x, Tensor& y);

  /// dx[m, 2 w] from dy[m, w] and the input of `swiglu`: with s = 1 / (1 + e^-a),
  /// da = dy b s (1 + a (1 - s)), db = dy a s. dx may be x.
  void (*swiglu_gradient)(Stream&, const Tensor& x, const Tensor& dy, Tensor& dx);
};

}  // namespace troupe::ops
