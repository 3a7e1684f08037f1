#include <troupe/kernels/nn/embedding.h>

#include <troupe/kernels/nn/init.h>

namespace troupe::nn {
namespace {

// [dims..., width].
Shape widened(const Shape& ids, int64_t width) {
  std::vector<int64_t> dims(ids.span().begin(), ids.span().end());
  dims.push_back(width);
  return Shape(std::span<const int64_t>(dims));
}

// All rows of the table, or the step's.
Shape table_shape(const Tensor& values, int64_t width) { return {values.count() / width, width}; }

}  // namespace

Shape Embedding::output_shape(const Shape& sample) const {
  return widened(sample, weight_[1]);
}

std::vector<ParamSpec> Embedding::params() const {
  return {{"weight", weight_, 0, ParamKind::weight}};
}

void Embedding::initialize(Random& random, std::span<float> values) const {
  fill_normal(random, deviation_, values);
}

Tensor Embedding::forward(const Pass& pass, const Tensor& weights, const Tensor& x,
                          LayerContext& context) const {
  Tensor y = pass.stream.empty({x.count(), weight_[1]}, weights.dtype());
  pass.ops.embedding(pass.stream, weights.view(0, table_shape(weights, weight_[1])), x, y);
  if (pass.training) context.x = x;
  return y.reshaped(widened(x.shape(), weight_[1]));
}

Tensor Embedding::backward_input(const Pass&, const Tensor&, Tensor dy, bool, LayerContext& context) const {
  context.dz = dy.reshaped({context.x.count(), weight_[1]});
  return {};
}

void Embedding::backward_weight(const Pass& pass, const Tensor&, const LayerContext& context,
                                ops::Write write, Tensor& gradient) const {
  Tensor dweight = gradient.view(0, table_shape(gradient, weight_[1]));
  pass.ops.embedding_gradient(pass.stream, context.x, context.dz, write, dweight);
}

}  // namespace troupe::nn
