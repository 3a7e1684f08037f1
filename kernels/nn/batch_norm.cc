#include <troupe/kernels/nn/batch_norm.h>

#include <algorithm>

namespace troupe::nn {

Shape BatchNorm::output_shape(const Shape& sample) const {
  TROUPE_CHECK(sample.dims() >= 1 && sample[0] == channels_, "samples of shape ", sample,
               " for a batch norm of ", channels_, " channels");
  return sample;
}

std::vector<ParamSpec> BatchNorm::params() const {
  const Shape shape{channels_};
  return {{"weight", shape, 0, ParamKind::bias},
          {"bias", shape, channels_, ParamKind::bias},
          {"running_mean", shape, 2 * channels_, ParamKind::statistic},
          {"running_variance", shape, 3 * channels_, ParamKind::statistic}};
}

void BatchNorm::initialize(Random&, std::span<float> values) const {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto param = static_cast<int64_t>(i) / channels_;
    values[i] = param == 0 || param == 3 ? 1.f : 0.f;
  }
}

Tensor BatchNorm::forward(const Pass& pass, const Tensor& weights, const Tensor& x,
                          LayerContext& context) const {
  Tensor z = pass.stream.empty(x.shape(), x.dtype());
  if (pass.training) {
    context.mean = pass.stream.empty({channels_}, x.dtype());
    context.spread = pass.stream.empty({channels_}, x.dtype());
    pass.ops.batch_norm(pass.stream, x, part(weights, 0), part(weights, 1), kEpsilon, z, context.mean,
                        context.spread);
    context.x = x;
  } else {
    pass.ops.batch_norm_inference(pass.stream, x, part(weights, 0), part(weights, 1), part(weights, 2),
                                  part(weights, 3), kEpsilon, z);
  }
  return activate(pass, activation_, std::move(z), false, context);
}

// dx needs the sums that are the gradients of weight and bias, so they come out here, wanted or not.
Tensor BatchNorm::backward_input(const Pass& pass, const Tensor& weights, Tensor dy, bool wants_dx,
                                 LayerContext& context) const {
  Tensor dz = activation_gradient(pass, activation_, std::move(dy), context);
  context.dscale = pass.stream.empty({channels_}, dz.dtype());
  context.dshift = pass.stream.empty({channels_}, dz.dtype());
  pass.ops.batch_norm_gradient(pass.stream, context.x, part(weights, 0), context.mean, context.spread,
                               kEpsilon, dz, ops::Write::set, dz, context.dscale, context.dshift);
  return wants_dx ? dz : Tensor();
}

void BatchNorm::backward_weight(const Pass& pass, const Tensor& weights, const LayerContext& context,
                                ops::Write write, Tensor& gradient) const {
  if (write == ops::Write::set) pass.ops.fill(pass.stream, 0, gradient);
  const auto samples = static_cast<double>(context.x.shape()[0]);
  const auto values = static_cast<double>(context.x.count() / channels_);
  const double unbiased = values > 1 ? values / (values - 1) : 1;
  Tensor dweight = part(gradient, 0), dbias = part(gradient, 1), dmean = part(gradient, 2),
         dvariance = part(gradient, 3);
  pass.ops.axpy(pass.stream, 1, context.dscale, dweight);
  pass.ops.axpy(pass.stream, 1, context.dshift, dbias);
  pass.ops.axpy(pass.stream, samples * kMomentum, part(weights, 2), dmean);
  pass.ops.axpy(pass.stream, -samples * kMomentum, context.mean, dmean);
  pass.ops.axpy(pass.stream, samples * kMomentum, part(weights, 3), dvariance);
  pass.ops.axpy(pass.stream, -samples * kMomentum * unbiased, context.spread, dvariance);
}

}  // namespace troupe::nn
