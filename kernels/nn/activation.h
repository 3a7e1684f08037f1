#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

enum class Activation : uint8_t {
  none,
  relu,
  /// A relu that a max pool follows. Its gradient is left to the pool (MaxPool::masks_relu), which masks a
  /// quarter of the pixels for the same result: max(relu(z)) = relu(max(z)).
  relu_before_pool,
  gelu,
  gelu_tanh,
};

/// What an op that fuses a relu is asked to do for this activation.
ops::Epilogue epilogue_of(Activation);

/// What an op that adds a bias is asked to do for a gelu, whose gradient takes the bias in as well
/// (BiasOps::bias_gelu_gradient); none for the others.
ops::Epilogue gelu_of(Activation);

/// y from z, which is consumed: for a relu y lies where z did. `z_is_relu` says that the op which made z has
/// applied `epilogue_of` already. Keeps in the context what `activation_gradient` needs.
Tensor activate(const Pass&, Activation, Tensor z, bool z_is_relu, LayerContext&);

/// dz, where dy lay.
Tensor activation_gradient(const Pass&, Activation, Tensor dy, const LayerContext&);

/// An activation that no layer before it could take in.
class ActivationLayer final : public Layer {
 public:
  explicit ActivationLayer(Activation activation) : activation_(activation) {}
  Shape output_shape(const Shape& sample) const override { return sample; }
  Tensor forward(const Pass&, const Tensor& weights, const Tensor& x, LayerContext&) const override;
  Tensor backward_input(const Pass&, const Tensor& weights, Tensor dy, bool wants_dx,
                        LayerContext&) const override;

 private:
  Activation activation_;
};

}  // namespace troupe::nn
