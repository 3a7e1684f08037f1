#include "gradient.h"

#include <cmath>

#include <troupe/kernels/base/random.h>

namespace troupe::sim {
namespace {

// splitmix64 (Steele et al., OOPSLA'14): spreads neighbouring numbers.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace

uint64_t work_seed(uint64_t run_seed, ps::Step step, ps::WorkerId worker) {
  return derive_seed(derive_seed(run_seed, "step", static_cast<uint64_t>(step)), "worker", worker);
}

std::vector<float> gradient(uint64_t work_seed, std::span<const uint32_t> samples, ps::LayerId layer, int64_t count,
                            const Tensor& weights) {
  std::vector<float> sum(static_cast<size_t>(count));
  for (const uint32_t sample : samples) {
    const uint64_t base = mix(work_seed ^ mix(sample) ^ layer << 8);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<float>(((base >> (i % 48)) + i * 5) % 9) - 4;
  }
  if (!weights) return sum;
  const float* w = weights.data<float>();
  for (size_t i = 0; i < sum.size(); ++i)
    sum[i] += static_cast<float>(samples.size()) * static_cast<float>(static_cast<int64_t>(std::floor(w[i])) & 1);
  return sum;
}

size_t non_finite_layer(uint64_t work_seed, double probability, size_t layers) {
  const uint64_t draw = mix(work_seed ^ 0x6e616e);
  if (static_cast<double>(draw % 1000) >= probability * 1000) return layers;
  return draw / 1000 % layers;
}

float initial_value(ps::LayerId layer, int64_t element) {
  return static_cast<float>(mix(layer * 1000 + static_cast<uint64_t>(element)) % 9) - 4;
}

}  // namespace troupe::sim
