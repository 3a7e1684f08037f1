#pragma once
#include <string>

#include <tests/support/finite_differences.h>
#include <troupe/kernels/ops/ops.h>

namespace troupe::test {

/// Normal numbers that a float holds exactly, so that f32 and f64 runs of an op start from the same input.
inline Tensor exact(uint64_t seed, Shape shape, DType dtype = DType::f64) {
  return as(dtype, as(DType::f32, normal(seed, shape)));
}

/// Numbers that tell what an op did not write.
inline Tensor unwritten(Shape shape, DType dtype) {
  Tensor t = Tensor::empty(shape, dtype);
  std::memset(t.raw(), 0xFF, t.bytes());  // NaN
  return t;
}

/// Sum of a[i] b[i]: a loss whose gradient with respect to `a` is `b`.
inline double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) sum += at(a, i) * at(b, i);
  return sum;
}

/// "" when `f` fails a check that says `text`, else what happened instead.
template <class F>
std::string failure_without(const std::string& text, F f) {
  try {
    f();
  } catch (const CheckFailure& failure) {
    const std::string what = failure.what();
    return what.find(text) != std::string::npos ? "" : "other text: " + what;
  }
  return "no check failed";
}

}  // namespace troupe::test
