#pragma once
// As CUDA's header does: functions of float and double without a namespace.
#include <math.h>

#include <cstddef>
#include <cstdint>

#include <tests/support/cuda/block_run.h>
#include <tests/support/cuda/intrinsics.h>
#include <tests/support/cuda/launch.h>

/// What a kernel source finds under the name of CUDA's own header where g++ compiles it for the emulation
/// (block_run.h). Only what our kernels use; a name that is missing here is a compiler's error.

using dim3 = ::troupe::test::cuda::Dim3;
using cudaStream_t = struct EmulatedCudaStream*;

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline

#define threadIdx (::troupe::test::cuda::here.thread)
#define blockIdx (::troupe::test::cuda::here.block)
#define blockDim (::troupe::test::cuda::here.threads)
#define gridDim (::troupe::test::cuda::here.blocks)
