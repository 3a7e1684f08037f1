#include <troupe/kernels/nn/conv.h>

#include <troupe/kernels/nn/init.h>

namespace troupe::nn {

Conv2d::Conv2d(int64_t channels, int64_t outputs, int64_t kernel, Options options)
    : weight_{outputs, channels, kernel, kernel},
      geometry_{options.stride, options.padding},
      bias_(options.bias),
      activation_(options.activation) {}

Shape Conv2d::output_shape(const Shape& sample) const {
  TROUPE_CHECK(sample.dims() == 3 && sample[0] == weight_[1], "samples of shape ", sample, " for ",
               weight_[1], " channels");
  const Shape y = ops::conv_output(batch_shape(1, sample), weight_, geometry_);
  return {y[1], y[2], y[3]};
}

std::vector<ParamSpec> Conv2d::params() const {
  std::vector<ParamSpec> params{{"weight", weight_, 0, ParamKind::weight}};
  if (bias_) params.push_back({"bias", {weight_[0]}, weight_.count(), ParamKind::bias});
  return params;
}

void Conv2d::initialize(Random& random, std::span<float> values) const {
  fill_uniform(random, inverse_root(weight_[1] * weight_[2] * weight_[3]), values);
}

Tensor Conv2d::bias_of(const Tensor& flat) const {
  return bias_ ? flat.view(weight_.count(), {weight_[0]}) : Tensor();
}

Tensor Conv2d::forward(const Pass& pass, const Tensor& weights, const Tensor& x,
                       LayerContext& context) const {
  Tensor z = pass.stream.empty(ops::conv_output(x.shape(), weight_, geometry_), x.dtype());
  pass.ops.conv(pass.stream, x, weights.view(0, weight_), bias_of(weights), geometry_,
                epilogue_of(activation_), z);
  if (pass.training) context.x = x;
  return activate(pass, activation_, std::move(z), true, context);
}

Tensor Conv2d::backward_input(const Pass& pass, const Tensor& weights, Tensor dy, bool wants_dx,
                              LayerContext& context) const {
  context.dz = activation_gradient(pass, activation_, std::move(dy), context);
  if (!wants_dx) return {};
  Tensor dx = pass.stream.empty(context.x.shape(), context.dz.dtype());
  pass.ops.conv_input_gradient(pass.stream, context.dz, weights.view(0, weight_), geometry_, dx);
  return dx;
}

void Conv2d::backward_weight(const Pass& pass, const Tensor&, const LayerContext& context, ops::Write write,
                             Tensor& gradient) const {
  Tensor dweight = gradient.view(0, weight_);
  Tensor dbias = bias_of(gradient);
  pass.ops.conv_weight_gradient(pass.stream, context.x, context.dz, geometry_, write, dweight, dbias);
}

}  // namespace troupe::nn
