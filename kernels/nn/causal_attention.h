#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// y[n, t, width] from x[n, t, 3 width], the queries, keys and values of every position: `heads` heads of width / heads
/// numbers, scores divided by the root of that, each position seeing itself and those before it (ops/attention.h).
/// With a base other than 0 queries and keys are turned by their positions first (ops/rotary.h; 10000 is usual).
class CausalAttention final : public Layer {
 public:
  explicit CausalAttention(int64_t heads, double rotary_base = 0) : heads_(heads), rotary_base_(rotary_base) {}

  Shape output_shape(const Shape& sample) const override;
  Tensor forward(const Pass&, const Tensor& weights, const Tensor& x, LayerContext&) const override;
  Tensor backward_input(const Pass&, const Tensor& weights, Tensor dy, bool wants_dx,
                        LayerContext&) const override;

 private:
  int64_t heads_;
  double rotary_base_;
};

}  // namespace troupe::nn
