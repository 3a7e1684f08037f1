#pragma once
#include <troupe/kernels/nn/activation.h>

namespace troupe::nn {

/// y = activation(x + skip): where the two paths of a residual block (He et al. 2015) meet. `skip` is in the
/// context; its gradient equals that of x.
class ResidualAdd final : public Layer {
 public:
  explicit ResidualAdd(Activation activation) : activation_(activation) {}
  Shape output_shape(const Shape& sample) const override { return sample; }
  Tensor forward(const Pass&, const Tensor& weights, const Tensor& x, LayerContext&) const override;
  Tensor backward_input(const Pass&, const Tensor& weights, Tensor dy, bool wants_dx,
                        LayerContext&) const override;

 private:
  Activation activation_;
};

}  // namespace troupe::nn
