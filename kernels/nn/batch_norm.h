#pragma once
#include <troupe/kernels/nn/activation.h>

namespace troupe::nn {

/// y = activation(each channel of x[n, channels, h, w] normalised, times weight, plus bias). Normalised with
/// the batch's statistics while training, with the running ones otherwise.
///
/// running_mean and running_variance are parameters of kind `statistic` that servers keep like all others.
/// Their "gradient" is samples x momentum x (running - batch), so that the servers' mean over samples makes
///   running -= momentum (running - batch)
/// and several workers' batches weigh as many samples as they have. The batch's variance is the unbiased
/// one there, as in PyTorch.
class BatchNorm final : public Layer {
 public:
  static constexpr double kEpsilon = 1e-5;
  static constexpr double kMomentum = 0.1;

  explicit BatchNorm(int64_t channels, Activation activation = Activation::none)
      : channels_(channels), activation_(activation) {}

  Shape output_shape(const Shape& sample) const override;
  std::vector<ParamSpec> params() const override;
  void initialize(Random&, std::span<float> values) const override;
  bool reads_masters() const override { return true; }
  Tensor forward(const Pass&, const Tensor& weights, const Tensor& x, LayerContext&) const override;
  Tensor backward_input(const Pass&, const Tensor& weights, Tensor dy, bool wants_dx,
                        LayerContext&) const override;
  void backward_weight(const Pass&, const Tensor& weights, const LayerContext&, ops::Write,
                       Tensor& gradient) const override;

 private:
  /// Parameter 0 weight, 1 bias, 2 running mean, 3 running variance of a flat vector.
  Tensor part(const Tensor& flat, int64_t index) const { return flat.view(index * channels_, {channels_}); }

  int64_t channels_;
  Activation activation_;
};

}  // namespace troupe::nn
