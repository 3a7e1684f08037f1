#pragma once
#include <bit>
#include <cstdint>

/// CUDA's half by the compiler's own: what kernels/tensor/half.h does is compared with something else.

struct __half {
  _Float16 value;
};

inline float __half2float(__half x) { return static_cast<float>(x.value); }
inline __half __float2half_rn(float x) { return {static_cast<_Float16>(x)}; }
inline __half __ushort_as_half(unsigned short bits) { return {std::bit_cast<_Float16>(bits)}; }
inline unsigned short __half_as_ushort(__half x) { return std::bit_cast<unsigned short>(x.value); }
