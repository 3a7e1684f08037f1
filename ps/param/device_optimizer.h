#pragma once
#include <vector>

#include <troupe/kernels/ops/update.h>
#include <troupe/ps/param/optimizer.h>

namespace troupe::ps {

/// One optimizer step on one slice (or a whole layer), all of whose tensors lie on a device: f32, of equal counts.
struct DeviceUpdate {
  const Tensor& gradient;         ///< summed
  Tensor& values;                 ///< updated in place
  std::vector<Tensor>& state;     ///< in the order of Optimizer::state_names, updated in place
  double gradient_scale = 1;
  double clip_scale = 1;          ///< of the gradient of all but statistics
  int64_t schedule_step = 0;
  int64_t updates = 0;            ///< steps that the slice has had before
  double rate_scale = 1;          ///< multiplies the learning rate, as SliceUpdate's
};

/// What make_optimizer(options) does on the CPU, done by a device's kernels, to rounding: one a tensor of the layer,
/// LAMB three. Thread-safe: it holds no state.
class DeviceOptimizer {
 public:
  /// `options` of which make_optimizer makes one; `ops` live longer.
  DeviceOptimizer(OptimizerOptions options, const ops::UpdateOps& ops) : options_(std::move(options)), ops_(&ops) {}

  /// Submits to `stream`, where the tensors are. The segments cover the slice.
  void apply(Stream& stream, std::span<const Segment> segments, const DeviceUpdate& update) const;

 private:
  void step(Stream& stream, const ops::Step& common, const Tensor& g, Tensor& w, std::vector<Tensor>& state,
            int64_t updates) const;

  OptimizerOptions options_;
  const ops::UpdateOps* ops_;
};

}  // namespace troupe::ps
