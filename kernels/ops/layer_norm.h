#pragma once
#include <troupe/kernels/ops/write.h>
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// Ba, Kiros, Hinton 2016: every row of x[m, n] is brought to mean 0 and variance 1, then scaled and shifted.
///   x^ = (x - mean) rstd,  y = x^ gamma + beta,  rstd = 1 / sqrt(variance + epsilon)
/// with the mean and the (biased) variance of the row; n > 0.
struct LayerNormOps {
  /// Writes y[m, n] and, for the backward pass, mean[m] and rstd[m]. y may be x when no gradient is wanted.
  void (*layer_norm)(Stream&, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                     Tensor& y, Tensor& mean, Tensor& rstd);

  /// With g = dy gamma: dx = rstd (g - mean_n(g) - x^ mean_n(g x^)). dx may be dy.
  void (*layer_norm_input_gradient)(Stream&, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                    const Tensor& rstd, const Tensor& dy, Tensor& dx);

  /// dgamma[n] (=, +=) sum over rows of dy x^, dbeta[n] (=, +=) sum over rows of dy.
  void (*layer_norm_weight_gradient)(Stream&, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                     const Tensor& dy, Write, Tensor& dgamma, Tensor& dbeta);
};

}  // namespace troupe::ops
