#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// [n, dims...] seen as [n, product of dims]. Moves no bytes.
class Flatten final : public Layer {
 public:
  Shape output_shape(const Shape& sample) const override { return {sample.count()}; }

  Tensor forward(const Pass&, const Tensor&, const Tensor& x, LayerContext& context) const override {
    context.x_shape = x.shape();
    const Shape rows{x.shape()[0], output_shape(sample_of(x.shape()))[0]};
    return x.reshaped(rows);
  }

  Tensor backward_input(const Pass&, const Tensor&, Tensor dy, bool wants_dx,
                        LayerContext& context) const override {
    return wants_dx ? dy.reshaped(context.x_shape) : Tensor();
  }

 private:
  static Shape sample_of(const Shape& batch) { return Shape(batch.span().subspan(1)); }
};

}  // namespace troupe::nn
