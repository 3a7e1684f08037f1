#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// While training, zeroes each value with probability p and divides the others by 1 - p (Srivastava et al.
/// 2014). The mask follows from the pass's seed and `place`, which tells the dropouts of a model apart; both
/// halves draw the same one.
class Dropout final : public Layer {
 public:
  Dropout(double p, uint64_t place) : p_(p), place_(place) {}
  Shape output_shape(const Shape& sample) const override { return sample; }
  bool draws() const override { return true; }
  Tensor forward(const Pass&, const Tensor& weights, const Tensor& x, LayerContext&) const override;
  Tensor backward_input(const Pass&, const Tensor& weights, Tensor dy, bool wants_dx,
                        LayerContext&) const override;

 private:
  double p_;
  uint64_t place_;
};

}  // namespace troupe::nn
