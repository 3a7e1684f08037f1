#pragma once
#include <cstdint>
#include <span>

#include <troupe/kernels/base/random.h>

namespace troupe::nn {

/// 1 / sqrt(fan_in): the bound that PyTorch's linear and convolution layers start within (He et al. 2015 with
/// gain sqrt(1/3)), kept so that accuracies compare.
double inverse_root(int64_t fan_in);

/// Uniform in [-bound, bound).
void fill_uniform(Random&, double bound, std::span<float> values);

/// Normal with this standard deviation.
void fill_normal(Random&, double deviation, std::span<float> values);

}  // namespace troupe::nn
