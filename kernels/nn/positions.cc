#include <troupe/kernels/nn/positions.h>

#include <troupe/kernels/nn/init.h>

namespace troupe::nn {
namespace {

// A sequence seen as one vector, to which the positions are what a bias is.
Tensor as_vectors(const Tensor& x) {
  return x.reshaped({x.shape()[0], x.shape()[1] * x.shape()[2]});
}

}  // namespace

Shape Positions::output_shape(const Shape& sample) const {
  TROUPE_CHECK(sample.dims() == 2 && sample[0] <= weight_[0] && sample[1] == weight_[1], "samples of shape ", sample,
               " for positions of shape ", weight_);
  return sample;
}

std::vector<ParamSpec> Positions::params() const {
  return {{"weight", weight_, 0, ParamKind::weight}};
}

void Positions::initialize(Random& random, std::span<float> values) const { fill_normal(random, deviation_, values); }

Tensor Positions::forward(const Pass& pass, const Tensor& weights, const Tensor& x, LayerContext&) const {
  output_shape(Shape(x.shape().span().subspan(1)));
  Tensor y = pass.stream.empty(x.shape(), x.dtype());
  Tensor vectors = as_vectors(y);
  const int64_t count = vectors.shape()[1];
  pass.ops.bias_add(pass.stream, as_vectors(x), weights.view(0, {count}), ops::Epilogue::none, vectors);
  return y;
}

// A copy for whoever comes before: dy is still to be summed, and they may write into theirs.
Tensor Positions::backward_input(const Pass& pass, const Tensor&, Tensor dy, bool wants_dx,
                                 LayerContext& context) const {
  context.dz = dy;
  if (!wants_dx) return {};
  Tensor dx = pass.stream.empty(dy.shape(), dy.dtype());
  pass.ops.copy(pass.stream, dy, dx);
  return dx;
}

void Positions::backward_weight(const Pass& pass, const Tensor&, const LayerContext& context, ops::Write write,
                                Tensor& gradient) const {
  const Tensor dy = as_vectors(context.dz);
  const int64_t used = dy.shape()[1];
  Tensor dweight = gradient.view(0, {used});
  pass.ops.bias_gradient(pass.stream, dy, write, dweight);
  Tensor rest = gradient.view(used, {gradient.count() - used});
  if (write == ops::Write::set) pass.ops.fill(pass.stream, 0, rest);
}

}  // namespace troupe::nn
