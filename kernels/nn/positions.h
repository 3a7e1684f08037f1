#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// y[n, t, width] = x[n, t, width] + weight[0 .. t), a learned vector for each position of a sequence of at most
/// `context`. Starts normal with the given deviation.
class Positions final : public Layer {
 public:
  Positions(int64_t context, int64_t width, double deviation) : weight_{context, width}, deviation_(deviation) {}

  Shape output_shape(const Shape& sample) const override;
  std::vector<ParamSpec> params() const override;
  void initialize(Random&, std::span<float> values) const override;
  Tensor forward(const Pass&, const Tensor& weights, const Tensor& x, LayerContext&) const override;
  Tensor backward_input(const Pass&, const Tensor& weights, Tensor dy, bool wants_dx,
                        LayerContext&) const override;
  void backward_weight(const Pass&, const Tensor& weights, const LayerContext&, ops::Write,
                       Tensor& gradient) const override;

 private:
  Shape weight_;
  double deviation_;
};

}  // namespace troupe::nn
