#pragma once
#include <troupe/kernels/nn/activation.h>

namespace troupe::nn {

/// y = activation(convolution of x[n, channels, h, w] with weight[outputs, channels, k, k] + bias). Starts
/// uniform in +-1/sqrt(channels k k), the bias too.
class Conv2d final : public Layer {
 public:
  struct Options {
    int64_t stride = 1;
    int64_t padding = 0;
    bool bias = true;  ///< pointless where a batch norm follows
    Activation activation = Activation::none;
  };

  Conv2d(int64_t channels, int64_t outputs, int64_t kernel, Options options);

  Shape output_shape(const Shape& sample) const override;
  std::vector<ParamSpec> params() const override;
  void initialize(Random&, std::span<float> values) const override;
  Tensor forward(const Pass&, const Tensor& weights, const Tensor& x, LayerContext&) const override;
  Tensor backward_input(const Pass&, const Tensor& weights, Tensor dy, bool wants_dx,
                        LayerContext&) const override;
  void backward_weight(const Pass&, const Tensor& weights, const LayerContext&, ops::Write,
                       Tensor& gradient) const override;

 private:
  /// The bias part of a flat vector, or none.
  Tensor bias_of(const Tensor& flat) const;

  Shape weight_;
  ops::ConvGeometry geometry_;
  bool bias_;
  Activation activation_;
};

}  // namespace troupe::nn
