#pragma once
#include <cstddef>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/pipeline/planner.h>

namespace troupe::ps {

/// The fastest plans first, at most `most`, of all compositions of the hardware's devices that run `batch` samples a
/// step and fit into its memory: every product of replicas, stages and tensor, powers of two of samples a
/// micro-batch, all synchronous schedules but those that another one is never worse than (sequential, gpipe). Of
/// micro-batches the best, of ways to recompute and to shard the first that fits, in the order of what they cost.
/// Where none fits, the error says what comes nearest. Pure; seconds for 1,024 devices.
Result<std::vector<Plan>> search_plans(const PlanTask& task, int64_t batch, size_t most);

}  // namespace troupe::ps
