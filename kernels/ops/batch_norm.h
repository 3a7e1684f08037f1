#pragma once
#include <troupe/kernels/ops/write.h>
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// Ioffe and Szegedy 2015: every channel of x is brought to mean 0 and variance 1, then scaled and shifted.
/// Dimension 1 is the channel: x is [n, c] or [n, c, h, w]; gamma, beta, mean and variance are [c].
///   x^ = (x - mean) / sqrt(variance + epsilon),  y = x^ gamma + beta
/// Running statistics belong to the layer: these ops only tell the batch's or use what they are given.
struct BatchNormOps {
  /// Writes y, and the batch's mean[c] and variance[c] (biased: divided by N = n h w; a layer that keeps a
  /// running variance may want N / (N - 1) of it). Of an empty batch: mean 0, variance 1.
  void (*batch_norm)(Stream&, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                     Tensor& y, Tensor& mean, Tensor& variance);

  /// y from given statistics. y may be x.
  void (*batch_norm_inference)(Stream&, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                               const Tensor& mean, const Tensor& variance, double epsilon, Tensor& y);

  /// Gradients of `batch_norm`: dgamma[c] (=, +=) sum dy x^, dbeta[c] (=, +=) sum dy, and
  ///   dx = gamma / sqrt(variance + epsilon) (dy - (sum dy + x^ sum dy x^) / N)
  /// in one call because dx needs this batch's sums. dx may be dy.
  void (*batch_norm_gradient)(Stream&, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                              const Tensor& variance, double epsilon, const Tensor& dy, Write, Tensor& dx,
                              Tensor& dgamma, Tensor& dbeta);
};

}  // namespace troupe::ops
