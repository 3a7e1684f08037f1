#include <troupe/kernels/nn/pool.h>

namespace troupe::nn {
namespace {

Shape pooled_sample(const Shape& sample, const ops::PoolGeometry& geometry) {
  const Shape y = ops::pool_output(batch_shape(1, sample), geometry);
  return {y[1], y[2], y[3]};
}

}  // namespace

Shape MaxPool::output_shape(const Shape& sample) const {
  return pooled_sample(sample, geometry_);
}

Tensor MaxPool::forward(const Pass& pass, const Tensor&, const Tensor& x, LayerContext& context) const {
  const Shape shape = ops::pool_output(x.shape(), geometry_);
  Tensor y = pass.stream.empty(shape, x.dtype());
  context.choice = pass.stream.empty(shape, DType::u8);
  pass.ops.max_pool(pass.stream, x, geometry_, y, context.choice);
  context.x_shape = x.shape();
  if (masks_relu_ && pass.training) context.y = y;
  return y;
}

Tensor MaxPool::backward_input(const Pass& pass, const Tensor&, Tensor dy, bool wants_dx,
                               LayerContext& context) const {
  if (!wants_dx) return {};
  if (masks_relu_) pass.ops.relu_gradient(pass.stream, context.y, dy, dy);
  Tensor dx = pass.stream.empty(context.x_shape, dy.dtype());
  pass.ops.max_pool_gradient(pass.stream, dy, context.choice, geometry_, dx);
  return dx;
}

Shape AvgPool::output_shape(const Shape& sample) const {
  return pooled_sample(sample, geometry_);
}

Tensor AvgPool::forward(const Pass& pass, const Tensor&, const Tensor& x, LayerContext& context) const {
  Tensor y = pass.stream.empty(ops::pool_output(x.shape(), geometry_), x.dtype());
  pass.ops.avg_pool(pass.stream, x, geometry_, y);
  context.x_shape = x.shape();
  return y;
}

Tensor AvgPool::backward_input(const Pass& pass, const Tensor&, Tensor dy, bool wants_dx,
                               LayerContext& context) const {
  if (!wants_dx) return {};
  Tensor dx = pass.stream.empty(context.x_shape, dy.dtype());
  pass.ops.avg_pool_gradient(pass.stream, dy, geometry_, dx);
  return dx;
}

Shape GlobalAvgPool::output_shape(const Shape& sample) const {
  TROUPE_CHECK(sample.dims() == 3, "samples of shape ", sample);
  return {sample[0]};
}

Tensor GlobalAvgPool::forward(const Pass& pass, const Tensor&, const Tensor& x, LayerContext& context) const {
  Tensor y = pass.stream.empty({x.shape()[0], x.shape()[1]}, x.dtype());
  pass.ops.global_avg_pool(pass.stream, x, y);
  context.x_shape = x.shape();
  return y;
}

Tensor GlobalAvgPool::backward_input(const Pass& pass, const Tensor&, Tensor dy, bool wants_dx,
                                     LayerContext& context) const {
  if (!wants_dx) return {};
  Tensor dx = pass.stream.empty(context.x_shape, dy.dtype());
  pass.ops.global_avg_pool_gradient(pass.stream, dy, dx);
  return dx;
}

}  // namespace troupe::nn
