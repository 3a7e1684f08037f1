#pragma once
#include <span>
#include <vector>

#include <troupe/ps/messages.h>

namespace troupe::ps {

/// A push of several workers of one process: its gradients are the sum of theirs, its samples all of them together. The
/// sender's contribution and those that it covers are counted in one event of the shard, so that however the process
/// ends none of them is lost or counted twice. The covered workers' own pushes of that step count as repeated.
///
/// Their numbers, ascending, travel behind the gradients as one more tensor, f32[workers covered].
void cover(Push& push, std::span<const WorkerId> others);

/// The gradients alone. `slices`: of the push's parcel.
std::span<const Tensor> gradients_of(const Push& push, size_t slices);

/// Whom a push covers besides its sender; none where it says nothing that could be. `check_push` finds that out.
std::vector<WorkerId> covered_by(const Push& push, size_t slices);

}  // namespace troupe::ps
