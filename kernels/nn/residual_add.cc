#include <troupe/kernels/nn/residual_add.h>

namespace troupe::nn {

Tensor ResidualAdd::forward(const Pass& pass, const Tensor&, const Tensor& x, LayerContext& context) const {
  TROUPE_CHECK(context.skip && context.skip.shape() == x.shape(), "adding ", context.skip.shape(), " to ",
               x.shape());
  Tensor z = pass.stream.empty(x.shape(), x.dtype());
  pass.ops.add(pass.stream, x, context.skip, z);
  context.skip = {};
  return activate(pass, activation_, std::move(z), false, context);
}

Tensor ResidualAdd::backward_input(const Pass& pass, const Tensor&, Tensor dy, bool,
                                   LayerContext& context) const {
  return activation_gradient(pass, activation_, std::move(dy), context);
}

}  // namespace troupe::nn
