#pragma once
#include <vector>

#include <troupe/kernels/tensor/tensor.h>
#include <troupe/ps/param/optimizer.h>

namespace troupe::test {

/// A server's step on one tensor of weights, in place.
inline void apply_whole(const ps::Optimizer& optimizer, double gradient_scale, int64_t updates, const Tensor& g,
                        Tensor& w, std::span<Tensor* const> states) {
  const std::span<const float> gradient = g.span<float>();
  const ps::Segment whole{0, g.count(), ParamKind::weight};
  std::vector<std::span<float>> state;
  for (Tensor* s : states) state.push_back(s->span<float>());
  ps::SliceUpdate update;
  update.in = update.out = w.span<float>();
  update.gradients = {&gradient, 1};
  update.gradient_scale = gradient_scale;
  update.state = state;
  update.segments = {&whole, 1};
  update.updates = updates;
  optimizer.apply(update);
}

}  // namespace troupe::test
