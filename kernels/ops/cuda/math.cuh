#pragma once
#include <troupe/kernels/ops/cuda/launch.h>

/// CUDA's functions under one name for both types: the float ones are its accurate ones, not the fast approximations.
namespace troupe::ops::cuda {

__device__ inline float exp_of(float x) { return expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }
template <class T>
__device__ T sigmoid(T x) {
  return T{1} / (T{1} + exp_of(-x));
}
__device__ inline float erf_of(float x) { return erff(x); }
__device__ inline double erf_of(double x) { return erf(x); }
__device__ inline float log_of(float x) { return logf(x); }
__device__ inline double log_of(double x) { return log(x); }
__device__ inline float sqrt_of(float x) { return sqrtf(x); }
__device__ inline double sqrt_of(double x) { return sqrt(x); }

/// Rounded by themselves: no fused multiply-add.
__device__ inline float product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double product(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float sum(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double sum(double a, double b) { return __dadd_rn(a, b); }

}  // namespace troupe::ops::cuda
