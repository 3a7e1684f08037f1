#pragma once
#include <troupe/kernels/nn/activation.h>

namespace troupe::nn {

/// y[n, outputs] = activation(x[n, inputs] weight[outputs, inputs]^T + bias). Weight and bias start uniform
/// in +-1/sqrt(inputs).
class Linear final : public Layer {
 public:
  Linear(int64_t inputs, int64_t outputs, Activation activation = Activation::none)
      : weight_{outputs, inputs}, bias_{outputs}, activation_(activation) {}

  Shape output_shape(const Shape& sample) const override;
  std::vector<ParamSpec> params() const override;
  void initialize(Random&, std::span<float> values) const override;
  Tensor forward(const Pass&, const Tensor& weights, const Tensor& x, LayerContext&) const override;
  Tensor backward_input(const Pass&, const Tensor& weights, Tensor dy, bool wants_dx,
                        LayerContext&) const override;
  void backward_weight(const Pass&, const Tensor& weights, const LayerContext&, ops::Write,
                       Tensor& gradient) const override;

 private:
  Shape weight_, bias_;
  Activation activation_;
};

}  // namespace troupe::nn
