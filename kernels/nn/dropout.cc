#include <troupe/kernels/nn/dropout.h>

namespace troupe::nn {

Tensor Dropout::forward(const Pass& pass, const Tensor&, const Tensor& x, LayerContext&) const {
  if (!pass.training) return x;
  Tensor y = pass.stream.empty(x.shape(), x.dtype());
  pass.ops.dropout(pass.stream, x, p_, derive_seed(pass.seed, "dropout", place_), 0, y);
  return y;
}

Tensor Dropout::backward_input(const Pass& pass, const Tensor&, Tensor dy, bool wants_dx,
                               LayerContext&) const {
  if (!wants_dx) return {};
  pass.ops.dropout(pass.stream, dy, p_, derive_seed(pass.seed, "dropout", place_), 0, dy);
  return dy;
}

}  // namespace troupe::nn
