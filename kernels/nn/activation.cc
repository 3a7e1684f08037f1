#include <troupe/kernels/nn/activation.h>

namespace troupe::nn {
namespace {

bool is_relu(Activation activation) {
  return activation == Activation::relu || activation == Activation::relu_before_pool;
}

}  // namespace

ops::Epilogue epilogue_of(Activation activation) {
  return is_relu(activation) ? ops::Epilogue::relu : ops::Epilogue::none;
}

ops::Epilogue gelu_of(Activation activation) {
  return activation == Activation::gelu        ? ops::Epilogue::gelu
         : activation == Activation::gelu_tanh ? ops::Epilogue::gelu_tanh
                                               : ops::Epilogue::none;
}

Tensor activate(const Pass& pass, Activation activation, Tensor z, bool z_is_relu, LayerContext& context) {
  if (activation == Activation::gelu || activation == Activation::gelu_tanh) {
    Tensor y = pass.stream.empty(z.shape(), z.dtype());
    (activation == Activation::gelu ? pass.ops.gelu : pass.ops.gelu_tanh)(pass.stream, z, y);
    if (pass.training) context.z = std::move(z);
    return y;
  }
  if (is_relu(activation) && !z_is_relu) pass.ops.relu(pass.stream, z, z);
  if (activation == Activation::relu && pass.training) context.y = z;
  return z;
}

Tensor activation_gradient(const Pass& pass, Activation activation, Tensor dy, const LayerContext& context) {
  if (activation == Activation::gelu) pass.ops.gelu_gradient(pass.stream, context.z, dy, dy);
  if (activation == Activation::gelu_tanh) pass.ops.gelu_tanh_gradient(pass.stream, context.z, dy, dy);
  if (activation == Activation::relu) pass.ops.relu_gradient(pass.stream, context.y, dy, dy);
  return dy;
}

Tensor ActivationLayer::forward(const Pass& pass, const Tensor&, const Tensor& x,
                                LayerContext& context) const {
  if (!is_relu(activation_)) return activate(pass, activation_, x, false, context);
  Tensor y = pass.stream.empty(x.shape(), x.dtype());
  pass.ops.relu(pass.stream, x, y);
  return activate(pass, activation_, std::move(y), true, context);
}

Tensor ActivationLayer::backward_input(const Pass& pass, const Tensor&, Tensor dy, bool wants_dx,
                                       LayerContext& context) const {
  if (!wants_dx) return {};
  return activation_gradient(pass, activation_, std::move(dy), context);
}

}  // namespace troupe::nn
