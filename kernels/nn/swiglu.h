#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// y[n, ..., w] = a / (1 + e^-a) b for x[n, ..., 2 w], whose rows are a gate a and then a value b (Shazeer 2020).
class SwiGlu final : public Layer {
 public:
  Shape output_shape(const Shape& sample) const override {
    TROUPE_CHECK(sample.dims() > 0 && sample[-1] % 2 == 0, "samples of shape ", sample);
    return with_last(sample, sample[-1] / 2);
  }

  Tensor forward(const Pass& pass, const Tensor&, const Tensor& x, LayerContext& context) const override {
    const Tensor rows = as_rows(x);
    Tensor y = Tensor::empty({rows.shape()[0], rows.shape()[1] / 2}, x.dtype());
    pass.ops.swiglu(pass.stream, rows, y);
    if (pass.training) context.x = rows;
    return y.reshaped(with_last(x.shape(), y.shape()[1]));
  }

  Tensor backward_input(const Pass& pass, const Tensor&, Tensor dy, bool wants_dx,
                        LayerContext& context) const override {
    if (!wants_dx) return {};
    Tensor dx = Tensor::empty(context.x.shape(), dy.dtype());
    pass.ops.swiglu_gradient(pass.stream, context.x, as_rows(dy), dx);
    return dx.reshaped(with_last(dy.shape(), dx.shape()[1]));
  }
};

}  // namespace troupe::nn
