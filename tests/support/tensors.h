#pragma once
#include <algorithm>
#include <cmath>
#include <string>

#include <troupe/kernels/base/random.h>
#include <troupe/kernels/base/text.h>
#include <troupe/kernels/tensor/half.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::test {

/// Element `i` as a double, whatever the dtype.
inline double at(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::f32:
      return static_cast<double>(t.data<float>()[i]);
    case DType::f64:
      return t.data<double>()[i];
    case DType::i32:
      return t.data<int32_t>()[i];
    case DType::u8:
      return t.data<uint8_t>()[i];
    case DType::f16:
      return static_cast<double>(to_float(t.data<Half>()[i]));
    case DType::bf16:
      return static_cast<double>(to_float(t.data<BFloat16>()[i]));
  }
  return 0;
}

/// The same numbers in another dtype (f32, f64 or i32), in memory of their own.
inline Tensor as(DType dtype, const Tensor& t) {
  Tensor out = Tensor::empty(t.shape(), dtype);
  for (int64_t i = 0; i < t.count(); ++i) {
    if (dtype == DType::f32) out.data<float>()[i] = static_cast<float>(at(t, i));
    if (dtype == DType::f64) out.data<double>()[i] = at(t, i);
    if (dtype == DType::i32) out.data<int32_t>()[i] = static_cast<int32_t>(at(t, i));
  }
  return out;
}

/// Standard normal numbers, F64.
inline Tensor normal(uint64_t seed, Shape shape) {
  Random random(seed);
  Tensor t = Tensor::empty(shape, DType::f64);
  for (double& value : t.span<double>()) value = random.normal();
  return t;
}

/// "" when all elements agree within `tolerance` times the largest expected one (at least 1), else the worst
/// difference in words.
inline std::string difference(const Tensor& actual, const Tensor& expected, double tolerance) {
  if (actual.count() != expected.count()) return cat(actual.shape(), " instead of ", expected.shape());
  double scale = 1, worst = 0;
  int64_t where = 0;
  for (int64_t i = 0; i < expected.count(); ++i) scale = std::max(scale, std::abs(at(expected, i)));
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double gap = std::abs(at(actual, i) - at(expected, i));
    if (gap <= worst) continue;  // a NaN is not <=
    worst = gap;
    where = i;
    if (std::isnan(gap)) break;
  }
  if (worst <= tolerance * scale) return "";
  return cat("element ", where, " is ", at(actual, where), " instead of ", at(expected, where));
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

}  // namespace troupe::test
