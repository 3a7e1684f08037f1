#include <troupe/kernels/nn/layer_norm.h>

#include <algorithm>

namespace troupe::nn {

Shape LayerNorm::output_shape(const Shape& sample) const {
  TROUPE_CHECK(sample.dims() > 0 && sample[-1] == width_, "samples of shape ", sample, " for a layer norm over ",
               width_);
  return sample;
}

std::vector<ParamSpec> LayerNorm::params() const {
  return {{"weight", {width_}, 0, ParamKind::bias}, {"bias", {width_}, width_, ParamKind::bias}};
}

void LayerNorm::initialize(Random&, std::span<float> values) const {
  std::fill_n(values.begin(), width_, 1.f);
  std::fill(values.begin() + width_, values.end(), 0.f);
}

Tensor LayerNorm::forward(const Pass& pass, const Tensor& weights, const Tensor& x,
                          LayerContext& context) const {
  const Tensor in = as_rows(x);
  const int64_t rows = in.shape()[0];
  Tensor z = pass.stream.empty(in.shape(), x.dtype());
  context.mean = pass.stream.empty({rows}, x.dtype());
  context.spread = pass.stream.empty({rows}, x.dtype());
  pass.ops.layer_norm(pass.stream, in, weights.view(0, {width_}), weights.view(width_, {width_}), kEpsilon, z,
                      context.mean, context.spread);
  if (pass.training) context.x = in;
  return activate(pass, activation_, std::move(z), false, context).reshaped(x.shape());
}

// dz stays as it is for backward_weight, so dx has memory of its own.
Tensor LayerNorm::backward_input(const Pass& pass, const Tensor& weights, Tensor dy, bool wants_dx,
                                 LayerContext& context) const {
  const Shape shape = dy.shape();
  context.dz = activation_gradient(pass, activation_, as_rows(dy), context);
  if (!wants_dx) return {};
  Tensor dx = pass.stream.empty(context.x.shape(), context.dz.dtype());
  pass.ops.layer_norm_input_gradient(pass.stream, context.x, weights.view(0, {width_}), context.mean,
                                     context.spread, context.dz, dx);
  return dx.reshaped(shape);
}

void LayerNorm::backward_weight(const Pass& pass, const Tensor&, const LayerContext& context,
                                ops::Write write, Tensor& gradient) const {
  Tensor dweight = gradient.view(0, {width_});
  Tensor dbias = gradient.view(width_, {width_});
  pass.ops.layer_norm_weight_gradient(pass.stream, context.x, context.mean, context.spread, context.dz, write,
                                      dweight, dbias);
}

}  // namespace troupe::nn
