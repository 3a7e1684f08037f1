#pragma once
#ifdef __F16C__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>

#include <troupe/kernels/tensor/half.h>

namespace troupe::ops::cpu {

/// Many f16 to float and back, as kernels/tensor/half.h has it. Where the target has F16C (x86-64-v3), its instructions
/// do eight at a time, which compilers do not find by themselves: in place of a dozen and more instructions, which took
/// longer than what they worked on took from memory. Of a NaN they keep the payload.
#ifdef __F16C__

/// Calls eight(p, q) along n elements; the last ones by way of a copy, so that where an element lies changes no bit of
/// it.
template <class From, class To, class Eight>
void each_eight(const From* x, int64_t n, To* y, Eight eight) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) eight(x + i, y + i);
  From last_x[8] = {};
  To last_y[8];
  std::copy(x + i, x + n, last_x);
  eight(last_x, last_y);
  std::copy(last_y, last_y + (n - i), y + i);
}

inline void widen_each(const Half* x, int64_t n, float* y) {
  each_eight(x, n, y, [](const Half* p, float* q) {
    _mm256_storeu_ps(q, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  });
}

inline void round_each(const float* x, int64_t n, Half* y) {
  each_eight(x, n, y, [](const float* p, Half* q) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm256_cvtps_ph(_mm256_loadu_ps(p), _MM_FROUND_TO_NEAREST_INT));
  });
}

#else

inline void widen_each(const Half* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = to_float(x[i]);
}

inline void round_each(const float* x, int64_t n, Half* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = to_half(x[i]);
}

#endif

}  // namespace troupe::ops::cpu
