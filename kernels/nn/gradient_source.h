#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <troupe/kernels/tensor/tensor.h>

namespace troupe {

/// What the optimizer does with a range of a layer's parameters.
enum class ParamKind : uint8_t {
  weight,     ///< decayed by weight decay
  bias,       ///< biases, norm scales and shifts: never decayed
  statistic,  ///< a running mean or variance: its "gradient" is (value - observation) x momentum, applied as is
};

/// One named tensor of a layer: `shape` at element `offset` of the layer's flat parameter vector.
struct ParamSpec {
  std::string name;  ///< "fc1.weight"
  Shape shape;
  int64_t offset = 0;
  ParamKind kind = ParamKind::weight;
};

/// A layer with parameters: the unit of policy, placement and push. All its tensors lie in one flat float
/// vector of `count` elements, and so do their gradients, so that a push needs no copy.
struct LayerSpec {
  std::string name;  ///< "fc1": what `[[update]] layers` globs match
  int64_t count = 0;
  std::vector<ParamSpec> params;  ///< ascending offsets that cover [0, count)
  /// More than 0: the layer is by rows. It is one tensor [rows, row_width], of which a step reads few rows and has
  /// gradients of these alone (an embedding): workers pull and push the rows that they name (GradientSource::rows).
  int64_t row_width = 0;
};

/// The samples of one step on one worker: indices into the training (or test) set.
struct Batch {
  std::span<const uint32_t> samples;
  uint64_t seed = 0;  ///< for dropout and augmentation: differs by run, step and worker
  /// Multiplies the loss for the backward pass, so that small gradients are not lost in 16 bits. Gradients are handed
  /// out divided by it again: a source that computes in float may ignore it.
  double loss_scale = 1;
};

/// What one step found out, as sums over its samples.
struct StepStats {
  double loss_sum = 0;
  int64_t correct = 0;  ///< samples classified right; 0 where there are no classes
  int64_t samples = 0;
};

/// Computes gradients: what a worker actor owns. Troupe's models are one (`nn::ModelSource`); an embedder's
/// own kernels, LibTorch or a simulator are another.
///
/// All calls come from one thread at a time (the worker's executor). A step is: perhaps `prepare`, `forward`
/// once or several times over ascending, adjacent layer ranges, as soon as their weights are there, then
/// `backward` once. An exception ends the worker with its text.
class GradientSource {
 public:
  virtual ~GradientSource() = default;

  /// The layers with parameters, in forward order. Constant.
  virtual const std::vector<LayerSpec>& layers() const = 0;

  /// Writes layer `layer`'s first parameters, the same for a seed wherever it is called.
  virtual void initialize(size_t layer, uint64_t seed, std::span<float> values) = 0;

  /// The next step's batch, between two steps: what needs no weights (reading samples) can be done while they
  /// are on their way. The step may come without it, and `evaluate` may come in between.
  virtual void prepare(const Batch& batch) { (void)batch; }

  /// The rows of layer `layer`, which is by rows, that the training batch reads: i32[n] in CPU memory, ascending, each
  /// once. The step's weights of that layer may then be these rows alone, [n, row_width] flat in this order, and its
  /// gradient is of the rows that its weights are of. Called between two steps, as `prepare` is.
  virtual Tensor rows(const Batch& batch, size_t layer);

  /// Weights of layers [first, last) are in `weights` (indexed by layer; the others may be empty), in host memory, or
  /// on the device that the source computes on, where this source knows how to use them there. Runs as much of the
  /// forward pass as they allow. A source that cannot split its work leaves this empty and does everything in
  /// `backward`.
  virtual void forward(const Batch& batch, std::span<const Tensor> weights, size_t first, size_t last) {
    (void)batch, (void)weights, (void)first, (void)last;
  }

  /// The order in which `backward` completes gradients: all layers, last first unless a source knows better
  /// (what the next step needs first is best under way first). Constant, and the same for all workers of a run.
  virtual std::vector<size_t> gradient_order() const;

  /// Called with (layer, gradient) when a layer's gradient is complete, in `gradient_order`; every layer once.
  /// The gradient is the *sum* over the batch's samples of d loss / d parameter, flat, as many floats as the layer's
  /// weights of this step (LayerSpec::count; fewer where they are some of its rows), and is never written again. It is
  /// in host memory, or where the layer's weights of this step were.
  using GradientReady = std::function<void(size_t layer, Tensor gradient)>;

  /// Gradients of these layers stay where the source computes, from the next `backward` on until this is called again;
  /// of no others, but for those whose weights are there. A source that computes in host memory has nothing to do.
  virtual void leave_on_device(std::span<const size_t> layers) { (void)layers; }

  /// Loss and backward pass of the batch; `weights` holds every layer.
  virtual StepStats backward(const Batch& batch, std::span<const Tensor> weights,
                             const GradientReady& ready) = 0;

  /// Loss and correct answers of test samples, without gradients (dropout off, running statistics used).
  virtual StepStats evaluate(std::span<const uint32_t> test_samples, std::span<const Tensor> weights) = 0;

  /// Sizes of the two sets that sample indices refer to.
  virtual int64_t train_samples() const = 0;
  virtual int64_t test_samples() const = 0;
};

}  // namespace troupe
