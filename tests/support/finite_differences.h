#pragma once
#include <functional>

#include <tests/support/tensors.h>

namespace troupe::test {

/// d f / d values by central differences, f being a function of `values` (F64), which it changes one by one
/// and puts back. At most `most` elements, spread evenly; the others are NaN.
inline Tensor finite_differences(Tensor& values, const std::function<double()>& f, int64_t most = 1 << 20) {
  constexpr double kStep = 1e-5;
  Tensor gradient = Tensor::empty(values.shape(), DType::f64);
  for (double& value : gradient.span<double>()) value = std::nan("");
  const int64_t stride = std::max<int64_t>(1, (values.count() + most - 1) / most);
  for (int64_t i = 0; i < values.count(); i += stride) {
    double& value = values.data<double>()[i];
    const double old = value;
    value = old + kStep;
    const double above = f();
    value = old - kStep;
    const double below = f();
    value = old;
    gradient.data<double>()[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

/// `difference` over the elements that were probed.
inline std::string gradient_difference(const Tensor& actual, const Tensor& probed, double tolerance = 1e-7) {
  if (actual.count() != probed.count()) return cat(actual.shape(), " instead of ", probed.shape());
  Tensor expected = probed.clone();
  for (int64_t i = 0; i < probed.count(); ++i)
    if (std::isnan(at(probed, i))) expected.data<double>()[i] = at(actual, i);
  return difference(actual, expected, tolerance);
}

}  // namespace troupe::test
