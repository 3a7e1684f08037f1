#pragma once
#include <troupe/kernels/ops/ops.h>
#include <troupe/kernels/ops/update.h>

namespace troupe::ops {

/// The CUDA backend, valid while its module is loaded. What it computes is what `cpu_ops` does, with these differences:
/// sums are taken in another order, though always in the same one, and in float where the CPU's are; and a label or an
/// id out of range stops the kernel, which the stream reports as a failed launch when it is next waited for.
const Ops& cuda_ops();

/// Optimizer steps on the device, as ps/param/optimizers does them on the CPU.
const UpdateOps& cuda_update_ops();

}  // namespace troupe::ops
