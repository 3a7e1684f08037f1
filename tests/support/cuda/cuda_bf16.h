#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

/// CUDA's bfloat16, by arithmetic: a float rounded to eight significant bits.

struct __nv_bfloat16 {
  unsigned short bits;
};

inline float __bfloat162float(__nv_bfloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  if (std::isnan(x)) return {0x7fff};
  const auto truncated = static_cast<unsigned short>(std::bit_cast<uint32_t>(x) >> 16);
  // Between its two neighbours, and to the even one from halfway; adding 1 to the bits also steps to infinity.
  const double below = static_cast<double>(__bfloat162float({truncated}));
  const auto next = static_cast<unsigned short>(truncated + 1);
  if (std::isinf(x) || below == static_cast<double>(x)) return {truncated};
  const bool infinite = (next & 0x7f80) == 0x7f80;
  const double above =
      infinite ? std::copysign(0x1p128, static_cast<double>(x)) : static_cast<double>(__bfloat162float({next}));
  const double up = std::abs(above - static_cast<double>(x)), down = std::abs(static_cast<double>(x) - below);
  return {up < down || (up == down && truncated % 2 == 1) ? next : truncated};
}

inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return {bits}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
