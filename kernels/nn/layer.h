#pragma once
#include <cstdint>
#include <vector>

#include <troupe/kernels/base/random.h>
#include <troupe/kernels/nn/gradient_source.h>
#include <troupe/kernels/ops/ops.h>

namespace troupe::nn {

/// What one pass over a batch runs on, and how.
struct Pass {
  Stream& stream;
  const ops::Ops& ops;
  bool training = true;  ///< false: dropout is off, batch norm uses its running statistics
  uint64_t seed = 0;     ///< of this step, for dropout
  int64_t first_sample = 0;  ///< of this pass in the step's batch, where several passes make up a batch
  DType storage = DType::f32;  ///< of activations and their gradients between layers: f32, f16, bf16 (half_storage.h)
  double loss_scale = 1;       ///< by which d loss / d anything is multiplied on the way back (loss_scale.h)
};

/// What one layer keeps of one pass for its backward half. Each pass has its own, so that several batches may
/// be in flight through one layer. A layer uses the fields it needs; the others stay empty.
struct LayerContext {
  Tensor x;               ///< its input
  Tensor skip;            ///< second input of a ResidualAdd, put here by whoever calls `forward`
  Tensor y;               ///< its output, for the gradient of a relu
  Tensor z;               ///< what went into a gelu; of a Linear with a bias, before that was added
  Tensor dz;              ///< loss gradient before the activation: from backward_input to backward_weight
  Tensor mean;            ///< of rows or channels
  Tensor spread;          ///< rstd of rows, or variance of channels
  Tensor choice;          ///< where each maximum was
  Tensor log_sums;        ///< of the rows of an attention
  Tensor dscale, dshift;  ///< weight gradients that backward_input computes on its way
  Shape x_shape;
};

/// A step of a model with explicit halves. It holds settings only (shapes, options), is immutable, and may be
/// used by several threads for different passes. All floating-point tensors of a pass have one dtype.
///
/// `weights` and `gradient` are the layer's flat vectors, cut up as `params` says. x and y are batches:
/// dimension 0 counts samples.
class Layer {
 public:
  virtual ~Layer() = default;

  /// Shape of one output sample for an input sample, which it checks.
  virtual Shape output_shape(const Shape& sample) const = 0;

  /// Names within the layer ("weight"), ascending offsets without gaps; none for a layer without parameters.
  virtual std::vector<ParamSpec> params() const { return {}; }
  /// More than 0: its gradient is by rows (LayerSpec::row_width), `weights` may be some rows of its table, and x names
  /// rows among those.
  virtual int64_t row_width() const { return 0; }
  virtual void initialize(Random&, std::span<float> values) const { (void)values; }

  /// Multiply-adds of the forward pass of one sample, about: what a model is balanced by where nobody has measured. As
  /// it stands every parameter is used once for each place (pixel, token) of the output.
  virtual int64_t work(const Shape& sample) const;

  /// Its parameters are read as they are, whatever a pass stores activations in: norms', which are few, and statistics.
  virtual bool reads_masters() const { return false; }

  /// It draws random numbers by Pass::seed, so that no two steps are the same work.
  virtual bool draws() const { return false; }

  virtual Tensor forward(const Pass&, const Tensor& weights, const Tensor& x, LayerContext&) const = 0;

  /// From dy = d loss / d y, which it takes over and may overwrite, d loss / d x; empty when `wants_dx` is
  /// false (nobody before it learns). Call once after `forward`.
  virtual Tensor backward_input(const Pass&, const Tensor& weights, Tensor dy, bool wants_dx,
                                LayerContext&) const = 0;

  /// Writes or adds the sum over samples of d loss / d weights. Call after `backward_input` of the same
  /// context, at any later time.
  virtual void backward_weight(const Pass&, const Tensor& weights, const LayerContext&, ops::Write,
                               Tensor& gradient) const {
    (void)weights, (void)gradient;
  }
};

/// [n, dims of the sample...].
Shape batch_shape(int64_t samples, const Shape& sample);

/// The same dimensions but for the last one: [n, t, width] with another width.
Shape with_last(const Shape& shape, int64_t last);

/// [n, ..., width] seen as [rows, width]: what works on vectors does not ask how they are arranged.
Tensor as_rows(const Tensor& x);

}  // namespace troupe::nn
