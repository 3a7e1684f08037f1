#pragma once
#include <tests/support/cuda/cuda_runtime.h>

/// CUDA kernels on a machine without a GPU: the folder cuda/ beside this file compiles a kernel source with g++.
///
///   block_run.h        blocks and threads as fibers in a seeded order, barriers, calls of a warp, what is a fault
///   cuda_runtime.h     found by kernel sources in place of CUDA's (cuda_fp16.h, cuda_bf16.h too): its words and names
///   intrinsics.h       shuffles, ballots, atomics
///   shared_array.h     shared memory
///   launch.h           TROUPE_LAUNCH
///   emulated_stream.h  the device: memory, and the order of launches
