#pragma once
#include <cuda_runtime.h>

#include <troupe/kernels/tensor/stream.h>

namespace troupe::ops::cuda {

/// The CUDA stream under `stream`. The device that made it defines both functions.
cudaStream_t stream_of(Stream& stream);

/// Called after each launch: counts it, and ends in a CheckFailure with the kernel's name where CUDA refused it.
void launched(Stream& stream, const char* kernel);

}  // namespace troupe::ops::cuda

// Where there is no GPU, <cuda_runtime.h> is the tests' emulation, which brings these three in a form that g++ knows.
#ifndef TROUPE_LAUNCH

/// kernel<<<grid, block, shared_bytes>>>(...) on a troupe::Stream. A kernel with commas in its name stands in
/// parentheses: TROUPE_LAUNCH((add<float, 4>), blocks, threads, 0, stream, n, a, b).
#define TROUPE_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                 \
  do {                                                                                                \
    kernel<<<(grid), (block), (shared_bytes), ::troupe::ops::cuda::stream_of(stream)>>>(__VA_ARGS__); \
    ::troupe::ops::cuda::launched(stream, #kernel);                                                   \
  } while (false)

/// type name[count] in shared memory, contents undefined.
#define TROUPE_SHARED(type, name, count) __shared__ type name[count]

/// `name` points to the shared memory that the launch asked for, aligned for any vector load.
#define TROUPE_DYNAMIC_SHARED(type, name)                                 \
  extern __shared__ __align__(16) unsigned char troupe_dynamic_shared_[]; \
  type* const name = reinterpret_cast<type*>(troupe_dynamic_shared_)

#endif
