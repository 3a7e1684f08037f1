#pragma once
#include <memory>
#include <span>
#include <vector>

#include <troupe/kernels/backend/backend.h>

namespace troupe {

/// A group inside this process, rank r on CUDA device devices[r], all different. As in a thread group, every call is
/// compared by the host before the devices begin it, which costs some microseconds and means that a wrong call is an
/// error and not a hang. Sums are taken in NCCL's order: all ranks hold the same bits, not those of a serial loop.
Result<std::vector<std::unique_ptr<Communicator>>> make_nccl_group(std::span<const int> devices);

/// A new group's key, for join_nccl_group.
Result<GroupKey> make_nccl_key();

/// Rank `where.rank` of a group whose ranks are in several processes; each calls this, and waits until all have or
/// 60 s have passed. Calls are not compared later, so `plan` (a hash of the calls that a step will make) must be equal.
Result<std::unique_ptr<Communicator>> join_nccl_group(const GroupKey& key, const GroupSeat& where);

}  // namespace troupe
