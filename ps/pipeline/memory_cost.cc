#include <troupe/ps/pipeline/memory_cost.h>

namespace troupe::ps {

StateBytes state_bytes(uint32_t zero, double replicas, double bytes_a_value) {
  const auto shared_from = [&](uint32_t stage) { return zero >= stage ? replicas : 1; };
  return {bytes_a_value / shared_from(3), bytes_a_value / shared_from(2), (16 - 2 * bytes_a_value) / shared_from(1)};
}

double kept_bytes(const LayerLoad& layer, double samples, const Composition& c) {
  if (c.recompute == Recompute::full && layer.recomputes) return layer.output_bytes * samples;
  const double attention = c.recompute == Recompute::selective ? 0 : layer.attention_bytes;
  const double whole = c.sequence_parallel ? layer.whole_bytes / c.tensor : layer.whole_bytes;
  return samples * (whole + (layer.split_bytes + attention) / c.tensor);
}

}  // namespace troupe::ps
