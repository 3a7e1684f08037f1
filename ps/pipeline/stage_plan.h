#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/kernels/nn/model.h>
#include <troupe/ps/ids.h>
#include <troupe/ps/pipeline/layer_profile.h>
#include <troupe/ps/pipeline/schedule.h>

namespace troupe::ps {

/// Layers [first, last) of the model: a chunk's.
struct LayerRange {
  LayerId first = 0, last = 0;
  bool operator==(const LayerRange&) const = default;
};

/// A layer of one chunk whose weights another chunk reads as well (GPT's embedding, read by its head): the reader's
/// part of the gradient travels to the owner, and the layer stays one. On two stages at most.
struct TiedLayer {
  LayerId layer = 0;
  uint32_t reader = 0;  ///< chunk
};

/// How a model is spread over the stages of a replica.
struct StagePlan {
  std::shared_ptr<const Schedule> schedule;
  std::vector<LayerRange> chunks;  ///< by chunk: all layers, in order
  std::vector<TiedLayer> tied;
  /// By chunk: the shape of one sample as the chunk before hands it on; empty: not known, whatever comes is computed.
  std::vector<Shape> inputs;

  std::vector<int64_t> counts() const;  ///< layers by chunk: what parallel.cuts takes

  /// By layer: the stage that computes its gradient (Layout::stage_of).
  std::vector<uint32_t> stage_of() const;
};

/// Cuts the model into the schedule's chunks: `counts` says how many layers each gets, first to last; empty: so that
/// the chunk that costs most costs as little as the model's cuts allow (partition.h). `costs` are by piece (pieces.h).
/// Pure: the same on every node. More chunks than the model can be cut into, counts that do not add up, and a cut where
/// several tensors cross (inside a residual block) are `invalid` errors that name the layer.
Result<StagePlan> plan_stages(const nn::Model& model, std::shared_ptr<const Schedule> schedule,
                              const std::vector<int64_t>& counts, std::span<const LayerCost> costs);
/// By estimated work.
Result<StagePlan> plan_stages(const nn::Model& model, std::shared_ptr<const Schedule> schedule,
                              const std::vector<int64_t>& counts = {});

}  // namespace troupe::ps
