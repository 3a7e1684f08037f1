#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// y[n, ..., width] = the rows of weight[rows, width] that ids x (i32, [n, ...]) name. Starts normal with the given
/// deviation, 1 as PyTorch's. Ids have no gradient. `by_rows`: its gradient is of the rows that a batch names alone.
class Embedding final : public Layer {
 public:
  Embedding(int64_t rows, int64_t width, double deviation = 1, bool by_rows = false)
      : weight_{rows, width}, deviation_(deviation), by_rows_(by_rows) {}

  Shape output_shape(const Shape& sample) const override;
  std::vector<ParamSpec> params() const override;
  int64_t row_width() const override { return by_rows_ ? weight_[1] : 0; }
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
  bool by_rows_;
};

}  // namespace troupe::nn
