#include <troupe/ps/pipeline/internal/layer_times.h>

#include <troupe/ps/pipeline/collective_cost.h>
#include <troupe/ps/pipeline/memory_cost.h>

namespace troupe::ps {
namespace {

/// `flops` of the whole group and a sample; what the forward pass makes is written once and read once.
PassTime estimated(const PlanTask& task, const Composition& c, const LayerLoad& layer, double flops) {
  const auto samples = static_cast<double>(c.micro_batch);
  const double made = kept_bytes(layer, samples, {.tensor = c.tensor, .sequence_parallel = c.sequence_parallel});
  PassTime time;
  time.arithmetic = flops * samples / c.tensor / (task.hardware.peak_tflops * 1e12 * task.hardware.efficiency);
  time.traffic = 2 * made / (task.hardware.memory_gb_per_s * 1e9);
  return time;
}

LayerTimes measured(const LayerProfile& profile, const Composition& c, size_t row) {
  const LayerCost& cost = profile.layers[row];
  const double scale = static_cast<double>(c.micro_batch) / static_cast<double>(profile.micro_batch);
  LayerTimes times;
  times.forward.arithmetic = cost.forward * scale;
  times.backward_input.arithmetic = cost.backward_input * scale;
  times.backward_weight.arithmetic = cost.backward_weight * scale;
  return times;
}

}  // namespace

LayerTimes layer_times(const PlanTask& task, const Composition& c, size_t row) {
  const LayerLoad& layer = task.model.layers[row];
  LayerTimes times;
  if (task.measured) {
    times = measured(*task.measured, c, row);
  } else {
    times.forward = estimated(task, c, layer, layer.forward_flops);
    times.backward_input = estimated(task, c, layer, layer.forward_flops + layer.attention_flops);
    times.backward_weight = estimated(task, c, layer, layer.forward_flops - layer.attention_flops);
  }
  if (layer.reduces) {
    const double bytes = layer.output_bytes * static_cast<double>(c.micro_batch);
    const double reduce = all_reduce_s(bytes, c.tensor, task.hardware.bytes_per_s(c.tensor));
    times.forward.exchange = times.backward_input.exchange = 2 * reduce;
  }
  if (c.recompute == Recompute::full && layer.recomputes) times.backward_input += times.forward;
  if (c.recompute == Recompute::selective && layer.attention_bytes > 0)
    times.backward_input.arithmetic += layer.attention_flops / layer.forward_flops * times.forward.arithmetic;
  return times;
}

}  // namespace troupe::ps
