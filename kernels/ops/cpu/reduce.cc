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

void count_non_finite(Stream&, const Tensor& x, Tensor& count) {
  // v - v is 0 for finite numbers, NaN for all others.
  reduce(x, count, [](double v) { return v - v == 0 ? 0.0 : 1.0; });
}

}  // namespace

ReduceOps reduce_ops() {
  return {sum, sum_of_squares, count_non_finite};
}

}  // namespace troupe::ops::cpu
