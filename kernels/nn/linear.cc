#include <troupe/kernels/nn/linear.h>

#include <algorithm>

#include <troupe/kernels/nn/init.h>

namespace troupe::nn {

using ops::Trans;

Shape Linear::output_shape(const Shape& sample) const {
  TROUPE_CHECK(sample.dims() > 0 && sample[-1] == weight_[1], "samples of shape ", sample, " for ", weight_[1],
               " inputs");
  return with_last(sample, weight_[0]);
}

std::vector<ParamSpec> Linear::params() const {
  std::vector<ParamSpec> params{{"weight", weight_, 0, ParamKind::weight}};
  if (options_.bias) params.push_back({"bias", {weight_[0]}, weight_.count(), ParamKind::bias});
  return params;
}

void Linear::initialize(Random& random, std::span<float> values) const {
  if (options_.deviation == 0) return fill_uniform(random, inverse_root(weight_[1]), values);
  const auto weights = static_cast<size_t>(weight_.count());
  fill_normal(random, options_.deviation, values.first(weights));
  std::ranges::fill(values.subspan(weights), 0.f);
}

Tensor Linear::bias_of(const Tensor& flat) const {
  return options_.bias ? flat.view(weight_.count(), {weight_[0]}) : Tensor();
}

Tensor Linear::forward(const Pass& pass, const Tensor& weights, const Tensor& x,
                       LayerContext& context) const {
  const Tensor rows = as_rows(x);
  const Tensor weight = weights.view(0, weight_), bias = bias_of(weights);
  const Shape shape = with_last(x.shape(), weight_[0]);
  Tensor z = pass.stream.empty({rows.shape()[0], weight_[0]}, x.dtype());
  if (pass.training) context.x = rows;
  if (bias_gelu() == ops::Epilogue::none) {
    pass.ops.linear(pass.stream, rows, weight, bias, epilogue_of(options_.activation), z);
    return activate(pass, options_.activation, std::move(z), true, context).reshaped(shape);
  }
  if (!pass.training) {
    pass.ops.linear(pass.stream, rows, weight, bias, bias_gelu(), z);
    return z.reshaped(shape);
  }
  Tensor y = pass.stream.empty(z.shape(), z.dtype());
  pass.ops.gemm(pass.stream, Trans::no, Trans::yes, rows, weight, 0, z);
  pass.ops.bias_add(pass.stream, z, bias, bias_gelu(), y);
  context.z = std::move(z);
  return y.reshaped(shape);
}

Tensor Linear::backward_input(const Pass& pass, const Tensor& weights, Tensor dy, bool wants_dx,
                              LayerContext& context) const {
  const Shape shape = with_last(dy.shape(), weight_[1]);
  context.dz = as_rows(dy);
  if (bias_gelu() == ops::Epilogue::none) {
    context.dz = activation_gradient(pass, options_.activation, context.dz, context);
  } else {
    context.dshift = pass.stream.empty({weight_[0]}, dy.dtype());
    pass.ops.bias_gelu_gradient(pass.stream, context.z, bias_of(weights), bias_gelu(), context.dz, ops::Write::set,
                                context.dz, context.dshift);
  }
  if (!wants_dx) return {};
  Tensor dx = pass.stream.empty(context.x.shape(), context.dz.dtype());
  pass.ops.gemm(pass.stream, Trans::no, Trans::no, context.dz, weights.view(0, weight_), 0, dx);
  return dx.reshaped(shape);
}

void Linear::backward_weight(const Pass& pass, const Tensor&, const LayerContext& context, ops::Write write,
                             Tensor& gradient) const {
  Tensor dweight = gradient.view(0, weight_);
  pass.ops.gemm(pass.stream, Trans::yes, Trans::no, context.dz, context.x, write == ops::Write::add ? 1 : 0,
                dweight);
  if (!options_.bias) return;
  Tensor dbias = bias_of(gradient);
  if (bias_gelu() == ops::Epilogue::none)
    pass.ops.bias_gradient(pass.stream, context.dz, write, dbias);
  else if (write == ops::Write::add)
    pass.ops.axpy(pass.stream, 1, context.dshift, dbias);
  else
    pass.ops.copy(pass.stream, context.dshift, dbias);
}

}  // namespace troupe::nn
