#pragma once
#include <span>

#include <troupe/ps/control/worker_core.h>
#include <troupe/ps/param/optimizer.h>

namespace troupe {

/// An optimizer step on elements [begin, end) of a layer that its workers hold themselves: `gradients` are added in
/// their order, `values` gets the new parameters, the state is updated in place.
void update_range(const ps::Optimizer& optimizer, const LayerSpec& layer, const ps::ApplyLocal& task,
                  std::span<const Tensor> gradients, int64_t begin, int64_t end, Tensor& values);

/// The layer after such a step, on `values`.
ps::SliceState after_update(const ps::ApplyLocal& task, Tensor values);

}  // namespace troupe
