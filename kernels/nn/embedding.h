#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// y[n, ..., width] = the rows of weight[rows, width] that ids x (i32, [n, ...]) name. Starts normal with the given
/// deviation, 1 as PyTorch's. Ids have no gradient.
class Embedding final : public Layer {
 public:
  Embedding(int64_t rows, int64_t width, double deviation = 1) : weight_{rows, width}, deviation_(deviation) {}

  Shape output_shape(const Shape& sample) const override;
  std::vector<ParamSpec> params() const override;
  void initialize(Random&, std::span<float> values) const override;
  int64_t work(const Shape& sample) const override { return output_shape(sample).count(); }
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
