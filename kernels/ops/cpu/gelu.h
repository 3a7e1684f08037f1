#pragma once
#include <numbers>

#include <troupe/kernels/ops/cpu/vector_math.h>

/// ActivationOps' functions of one element, and their derivatives, for loops that vectorise.
namespace troupe::ops::cpu {

struct Gelu {
  template <class T>
  static T integral(T x) {  // of the normal density
    return (T{1} + erf_of(x * static_cast<T>(std::numbers::sqrt2 / 2))) / 2;
  }
  template <class T>
  static T value(T x) {
    return x * integral(x);
  }
  template <class T>
  static T slope(T x) {
    constexpr T kPeak = static_cast<T>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);  // phi(0)
    return integral(x) + x * kPeak * exp_of(x * x / T{-2});
  }
};

/// With GPT-2's u, (1 + tanh u) / 2 = 1 / (1 + e^(-2 u)).
struct GeluTanh {
  static constexpr double kTwice = 2 * std::numbers::inv_sqrtpi * std::numbers::sqrt2, kCubic = 0.044715;

  template <class T>
  static T gate(T x) {
    return sigmoid(static_cast<T>(kTwice) * x * (T{1} + static_cast<T>(kCubic) * x * x));
  }
  template <class T>
  static T value(T x) {
    return x * gate(x);
  }
  template <class T>
  static T slope(T x) {
    const T s = gate(x);
    return s + x * s * (T{1} - s) * static_cast<T>(kTwice) * (T{1} + static_cast<T>(3 * kCubic) * x * x);
  }
};

}  // namespace troupe::ops::cpu
