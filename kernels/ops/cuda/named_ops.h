#pragma once
#include <troupe/kernels/ops/ops.h>
#include <troupe/kernels/ops/update.h>

namespace troupe::ops::cuda {

/// The functions of `cuda_ops` and `cuda_update_ops` as a run calls them: each first makes its stream's device current,
/// tells the stream its name, which a later error is told with, and is an NVTX range of that name while it submits.
/// Valid as long as the program runs. Costs about as much as three calls of a function; a kernel's launch costs twenty
/// times that.
const Ops& named_cuda_ops();
const UpdateOps& named_cuda_update_ops();

}  // namespace troupe::ops::cuda
