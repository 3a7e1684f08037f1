#include <troupe/kernels/nn/causal_attention.h>

#include <cmath>

namespace troupe::nn {
namespace {

double scale_of(const Tensor& qkv) { return 1 / std::sqrt(static_cast<double>(qkv.shape()[4])); }

}  // namespace

Shape CausalAttention::output_shape(const Shape& sample) const {
  TROUPE_CHECK(sample.dims() == 2 && sample[1] % (3 * heads_) == 0, "samples of shape ", sample, " for ", heads_,
               " heads");
  return {sample[0], sample[1] / 3};
}

Tensor CausalAttention::forward(const Pass& pass, const Tensor&, const Tensor& x, LayerContext& context) const {
  const int64_t n = x.shape()[0], t = x.shape()[1], d = x.shape()[2] / (3 * heads_);
  Tensor qkv = x.reshaped({n, t, 3, heads_, d});
  if (rotary_base_ != 0) {
    qkv = pass.stream.empty(qkv.shape(), x.dtype());
    pass.ops.copy(pass.stream, x, qkv);
    pass.ops.rotary(pass.stream, rotary_base_, qkv);
  }
  Tensor y = pass.stream.empty({n, t, heads_, d}, x.dtype());
  Tensor log_sums = pass.stream.empty({n, heads_, t}, x.dtype());
  pass.ops.attention(pass.stream, qkv, scale_of(qkv), y, log_sums);
  if (pass.training) {
    context.x = qkv;
    context.y = y;
    context.log_sums = log_sums;
  }
  return y.reshaped({n, t, heads_ * d});
}

Tensor CausalAttention::backward_input(const Pass& pass, const Tensor&, Tensor dy, bool wants_dx,
                                       LayerContext& context) const {
  if (!wants_dx) return {};
  const Tensor& qkv = context.x;
  Tensor dqkv = pass.stream.empty(qkv.shape(), dy.dtype());
  pass.ops.attention_gradient(pass.stream, qkv, scale_of(qkv), context.y, context.log_sums,
                              dy.reshaped(context.y.shape()), dqkv);
  if (rotary_base_ != 0) pass.ops.rotary_gradient(pass.stream, rotary_base_, dqkv);
  return dqkv.reshaped({qkv.shape()[0], qkv.shape()[1], 3 * heads_ * qkv.shape()[4]});
}

}  // namespace troupe::nn
