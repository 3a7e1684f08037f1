#include <bit>
#include <cmath>

#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/sums.h>
#include <troupe/kernels/ops/cpu/tensors.h>

namespace troupe::ops::cpu {
namespace {

// result = the sum of f(x[i]), each widened to double first.
template <class F>
void reduce(const Tensor& x, Tensor& result, F f) {
  expect_dims(x, 0, Shape::kMaxDims, "x");
  expect(result, DType::f64, {1}, "result");
  dispatch(x.dtype(), [&](auto zero) {
    const auto* p = x.data<decltype(zero)>();
    result.data<double>()[0] =
        lane_sum<double>(x.count(), [=](int64_t i) { return f(static_cast<double>(p[i])); });
  });
}

void sum(Stream&, const Tensor& x, Tensor& total) {
  reduce(x, total, [](double v) { return v; });
}

void sum_of_squares(Stream&, const Tensor& x, Tensor& total) {
  reduce(x, total, [](double v) { return v * v; });
}

// NaN and Inf have all bits of the exponent set. Seen as integers, where widening to double would cost more than
// reading: workers look through every gradient.
int64_t non_finite(const float* p, int64_t n) {
  constexpr uint32_t kExponent = 0x7f800000;
  constexpr int64_t kBlock = int64_t{1} << 24;  // what 32 bits can count
  int64_t count = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock)
    count += lane_sum<uint32_t>(std::min(kBlock, n - begin), [from = p + begin](int64_t i) {
      return (std::bit_cast<uint32_t>(from[i]) & kExponent) == kExponent ? 1u : 0u;
    });
  return count;
}

void count_non_finite(Stream&, const Tensor& x, Tensor& count) {
  if (x.dtype() == DType::f32) {
    expect_dims(x, 0, Shape::kMaxDims, "x");
    expect(count, DType::f64, {1}, "count");
    count.data<double>()[0] = static_cast<double>(non_finite(x.data<float>(), x.count()));
    return;
  }
  // v - v is 0 for finite numbers, NaN for all others.
  reduce(x, count, [](double v) { return v - v == 0 ? 0.0 : 1.0; });
}

}  // namespace

ReduceOps reduce_ops() {
  return {sum, sum_of_squares, count_non_finite};
}

}  // namespace troupe::ops::cpu
