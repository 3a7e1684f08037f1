#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// The largest pixel of each window. With `masks_relu` it also does the backward half of the relu before it
/// (Activation::relu_before_pool).
class MaxPool final : public Layer {
 public:
  explicit MaxPool(ops::PoolGeometry geometry, bool masks_relu = false)
      : geometry_(geometry), masks_relu_(masks_relu) {}
  Shape output_shape(const Shape& sample) const override;
  Tensor forward(const Pass&, const Tensor& weights, const Tensor& x, LayerContext&) const override;
  Tensor backward_input(const Pass&, const Tensor& weights, Tensor dy, bool wants_dx,
                        LayerContext&) const override;

 private:
  ops::PoolGeometry geometry_;
  bool masks_relu_;
};

/// The mean of each window, padding counted as zeros.
class AvgPool final : public Layer {
 public:
  explicit AvgPool(ops::PoolGeometry geometry) : geometry_(geometry) {}
  Shape output_shape(const Shape& sample) const override;
  Tensor forward(const Pass&, const Tensor& weights, const Tensor& x, LayerContext&) const override;
  Tensor backward_input(const Pass&, const Tensor& weights, Tensor dy, bool wants_dx,
                        LayerContext&) const override;

 private:
  ops::PoolGeometry geometry_;
};

/// [n, c, h, w] -> [n, c], the mean of each image.
class GlobalAvgPool final : public Layer {
 public:
  Shape output_shape(const Shape& sample) const override;
  Tensor forward(const Pass&, const Tensor& weights, const Tensor& x, LayerContext&) const override;
  Tensor backward_input(const Pass&, const Tensor& weights, Tensor dy, bool wants_dx,
                        LayerContext&) const override;
};

}  // namespace troupe::nn
