#pragma once
#include <troupe/kernels/ops/cuda/launch.h>
#include <troupe/kernels/ops/write.h>

namespace troupe::ops::cuda {

/// Where a gradient goes, and whether it is added to what is there.
template <class T>
struct Written {
  T* to;
  Write write;
  __device__ void put(int64_t i, T value) const { to[i] = write == Write::add ? to[i] + value : value; }
};

}  // namespace troupe::ops::cuda
