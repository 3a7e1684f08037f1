#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <troupe/kernels/ops/cuda/launch.h>
#include <troupe/kernels/tensor/dtype.h>

/// Half and BFloat16 of kernels/tensor/half.h by the device's own instructions: rounding is the same, and a NaN stays a
/// NaN, though not always the same one.
namespace troupe::ops::cuda {

__device__ inline float widened(float x) { return x; }
__device__ inline float widened(Half x) { return __half2float(__ushort_as_half(x.bits)); }
__device__ inline float widened(BFloat16 x) { return __bfloat162float(__ushort_as_bfloat16(x.bits)); }

template <class To>
__device__ To narrowed(float x);
template <>
__device__ inline float narrowed<float>(float x) {
  return x;
}
template <>
__device__ inline Half narrowed<Half>(float x) {
  return {__half_as_ushort(__float2half_rn(x))};
}
template <>
__device__ inline BFloat16 narrowed<BFloat16>(float x) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}

}  // namespace troupe::ops::cuda
