#pragma once
#include <troupe/kernels/nn/activation.h>

namespace troupe::nn {

/// y[n, ..., width] = activation(each row normalised, times weight[width], plus bias[width]); they start at 1 and 0.
class LayerNorm final : public Layer {
 public:
  static constexpr double kEpsilon = 1e-5;

  explicit LayerNorm(int64_t width, Activation activation = Activation::none)
      : width_(width), activation_(activation) {}

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
  int64_t width_;
  Activation activation_;
};

}  // namespace troupe::nn
