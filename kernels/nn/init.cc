#include <troupe/kernels/nn/init.h>

#include <cmath>

namespace troupe::nn {

double inverse_root(int64_t fan_in) {
  return 1 / std::sqrt(static_cast<double>(fan_in));
}

void fill_uniform(Random& random, double bound, std::span<float> values) {
  for (float& value : values) value = static_cast<float>((2 * random.uniform() - 1) * bound);
}

void fill_normal(Random& random, double deviation, std::span<float> values) {
  for (float& value : values) value = static_cast<float>(deviation * random.normal());
}

}  // namespace troupe::nn
