#pragma once
#include <troupe/kernels/nn/activation.h>

namespace troupe::nn {

/// y[n, ..., outputs] = activation(x[n, ..., inputs] weight[outputs, inputs]^T + bias), whatever dimensions lie
/// between.
///
/// A bias and a gelu are one pass over y each way: forward z = x weight^T is read and kept and y written, backward z
/// and dy are read, dz is written where dy lay, and the bias's gradient is summed on the way.
class Linear final : public Layer {
 public:
  struct Options {
    Activation activation = Activation::none;
    bool bias = true;
    /// Weights start normal with this deviation and biases at 0; 0: both start uniform in +-1/sqrt(inputs).
    double deviation = 0;
  };

  Linear(int64_t inputs, int64_t outputs, Activation activation = Activation::none)
      : Linear(inputs, outputs, Options{.activation = activation}) {}
  Linear(int64_t inputs, int64_t outputs, Options options) : weight_{outputs, inputs}, options_(options) {}

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
  /// The gelu that goes with the bias, or none.
  ops::Epilogue bias_gelu() const { return options_.bias ? gelu_of(options_.activation) : ops::Epilogue::none; }

  Shape weight_;
  Options options_;
};

}  // namespace troupe::nn
