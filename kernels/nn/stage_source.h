#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/kernels/nn/gradient_source.h>

namespace troupe {

/// One micro-batch on its way through one part of the model.
struct MicroBatch {
  uint32_t index = 0;                 ///< in its step
  uint32_t part = 0;                  ///< index into the parts that the source has
  std::span<const uint32_t> samples;  ///< of the training set; of the test set where it does not train
  int64_t first_sample = 0;           ///< place of the first in the replica's batch
  uint64_t seed = 0;                  ///< of the replica's batch
  bool training = true;               ///< false: only `forward` follows
  double loss_scale = 1;              ///< as Batch::loss_scale; of all micro-batches of a step
  int64_t step = 0;                   ///< in which it is: micro-batches of several may be under way
};

/// Computes what one stage of a pipeline computes: some parts of a model, each a range of layers, for the micro-batches
/// of a step. Part by part it is what GradientSource is for a whole model; Troupe's is nn::ModelStageSource.
///
/// All calls come from one thread at a time. For each micro-batch and part: `forward`, then `backward_input`, then
/// `backward_weight`, other micro-batches in between, of the next steps as well: but no `backward_weight` of a step
/// before the gradients of the one before it were taken. An exception ends the stage with its text.
class StageSource {
 public:
  virtual ~StageSource() = default;

  /// All layers of the model, as GradientSource::layers.
  virtual const std::vector<LayerSpec>& layers() const = 0;

  /// Outputs of the part, for the next one. `x` is what the part before it gave, empty for the model's first. The
  /// model's last part gives nothing: it keeps the loss, and its gradient.
  virtual Tensor forward(const MicroBatch&, std::span<const Tensor> weights, Tensor x) = 0;

  /// d loss / d x of the part, for the one before; empty for the model's first. `doutput` is what the part behind gave,
  /// empty for the model's last.
  virtual Tensor backward_input(const MicroBatch&, std::span<const Tensor> weights, Tensor doutput) = 0;

  /// Adds to the gradients of the part's layers.
  virtual void backward_weight(const MicroBatch&, std::span<const Tensor> weights) = 0;

  /// The sum of a layer's gradients since it was last taken; the stage takes it when all micro-batches are in it.
  virtual Tensor take_gradient(size_t layer) = 0;
  /// Loss, correct answers and samples since they were last taken: zeros where the model's last part is elsewhere.
  virtual StepStats take_stats() = 0;

  /// Forgets the micro-batches under way, gradients and sums: their step begins again, or never ends.
  virtual void reset() = 0;
};

}  // namespace troupe
