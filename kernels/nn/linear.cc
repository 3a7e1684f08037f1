#include <troupe/kernels/nn/linear.h>

#include <troupe/kernels/nn/init.h>

namespace troupe::nn {

using ops::Trans;

Shape Linear::output_shape(const Shape& sample) const {
  TROUPE_CHECK(sample == Shape{weight_[1]}, "samples of shape ", sample, " for ", weight_[1], " inputs");
  return bias_;
}

std::vector<ParamSpec> Linear::params() const {
  return {{"weight", weight_, 0, ParamKind::weight}, {"bias", bias_, weight_.count(), ParamKind::bias}};
}

void Linear::initialize(Random& random, std::span<float> values) const {
  fill_uniform(random, inverse_root(weight_[1]), values);
}

Tensor Linear::forward(const Pass& pass, const Tensor& weights, const Tensor& x,
                       LayerContext& context) const {
  Tensor z = pass.stream.empty({x.shape()[0], weight_[0]}, x.dtype());
  pass.ops.linear(pass.stream, x, weights.view(0, weight_), weights.view(weight_.count(), bias_),
                  epilogue_of(activation_), z);
  if (pass.training) context.x = x;
  return activate(pass, activation_, std::move(z), true, context);
}

Tensor Linear::backward_input(const Pass& pass, const Tensor& weights, Tensor dy, bool wants_dx,
                              LayerContext& context) const {
  context.dz = activation_gradient(pass, activation_, std::move(dy), context);
  if (!wants_dx) return {};
  Tensor dx = pass.stream.empty(context.x.shape(), context.dz.dtype());
  pass.ops.gemm(pass.stream, Trans::no, Trans::no, context.dz, weights.view(0, weight_), 0, dx);
  return dx;
}

void Linear::backward_weight(const Pass& pass, const Tensor&, const LayerContext& context, ops::Write write,
                             Tensor& gradient) const {
  Tensor dweight = gradient.view(0, weight_);
  Tensor dbias = gradient.view(weight_.count(), bias_);
  pass.ops.gemm(pass.stream, Trans::yes, Trans::no, context.dz, context.x, write == ops::Write::add ? 1 : 0,
                dweight);
  pass.ops.bias_gradient(pass.stream, context.dz, write, dbias);
}

}  // namespace troupe::nn
