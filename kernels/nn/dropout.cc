#include <troupe/kernels/nn/dropout.h>

namespace troupe::nn {
namespace {

// A micro-batch draws what its samples draw in the whole batch.
int64_t first_element(const Pass& pass, const Tensor& x) {
  return x.count() == 0 ? 0 : pass.first_sample * (x.count() / x.shape()[0]);
}

}  // namespace

Tensor Dropout::forward(const Pass& pass, const Tensor&, const Tensor& x, LayerContext&) const {
  if (!pass.training) return x;
  Tensor y = pass.stream.empty(x.shape(), x.dtype());
  pass.ops.dropout(pass.stream, x, p_, derive_seed(pass.seed, "dropout", place_), first_element(pass, x), y);
  return y;
}

Tensor Dropout::backward_input(const Pass& pass, const Tensor&, Tensor dy, bool wants_dx,
                               LayerContext&) const {
  if (!wants_dx) return {};
  pass.ops.dropout(pass.stream, dy, p_, derive_seed(pass.seed, "dropout", place_), first_element(pass, dy), dy);
  return dy;
}

}  // namespace troupe::nn
