#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace troupe::ops::cpu {

/// e^x without branches, so that loops over it vectorise: x = n ln 2 + r, |r| <= ln 2 / 2, a polynomial for
/// e^r (Cephes' expf), 2^n through the exponent bits. Relative error below 2e-7; below -87 it is 0, above 88
/// it is e^88; NaN stays NaN.
inline float exp_of(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 x 2^23: adding it rounds to an integer in the low bits
  float z = x > 88.0f ? 88.0f : x;
  z = z < -87.0f ? -87.0f : z;
  const float shifted = z * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const float r = (z - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  const float scale = std::bit_cast<float>((exponent + 127) << 23);
  return x < -87.0f ? 0.0f : p * scale;
}
inline double exp_of(double x) {
  return std::exp(x);
}

template <class T>
T sigmoid(T x) {
  return T{1} / (T{1} + exp_of(-x));
}

/// erf(x) by the rational approximation that Eigen and XLA use, odd in x, with an error below 4e-7; 1 beyond
/// |x| = 4, as erf is in float.
inline float erf_of(float x) {
  float z = x > 4.0f ? 4.0f : x;
  z = z < -4.0f ? -4.0f : z;
  const float s = z * z;
  float p = -2.72614225801306e-10f;
  p = p * s + 2.77068142495902e-08f;
  p = p * s + -2.10102402082508e-06f;
  p = p * s + -5.69250639462346e-05f;
  p = p * s + -7.34990630326855e-04f;
  p = p * s + -2.95459980854025e-03f;
  p = p * s + -1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * s + -2.13374055278905e-04f;
  q = q * s + -1.68282697438203e-03f;
  q = q * s + -7.37332916720468e-03f;
  q = q * s + -1.42647390514189e-02f;
  return z * p / q;
}
inline double erf_of(double x) {
  return std::erf(x);
}

}  // namespace troupe::ops::cpu
