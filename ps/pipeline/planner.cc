#include <troupe/ps/pipeline/planner.h>

#include <algorithm>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/pipeline/check_schedule.h>
#include <troupe/ps/pipeline/collective_cost.h>
#include <troupe/ps/pipeline/internal/layer_times.h>
#include <troupe/ps/pipeline/memory_cost.h>
#include <troupe/ps/pipeline/simulate.h>

namespace troupe::ps {
namespace {

class Planner {
 public:
  Planner(const PlanTask& task, const Composition& composition)
      : task_(task),
        c_(composition),
        hardware_(task.hardware),
        samples_(static_cast<double>(composition.micro_batch)) {}

  /// `if_it_fits`: leaves the times alone where the memory does not do.
  Result<Plan> plan(bool if_it_fits) {
    TROUPE_TRY(check_composition());
    auto schedule = planned_schedule();
    if (!schedule) return tl::unexpected(schedule.error());
    if (task_.gradients_first) schedule->fused_backward = false;
    TROUPE_TRY(cut(schedule->chunks));
    result_.composition = c_;
    set_memory(*schedule);
    if (result_.fits || !if_it_fits) set_times(*schedule);
    return std::move(result_);
  }

 private:
  tl::unexpected<Error> wrong(const std::string& what) const { return fail(ErrorKind::invalid, what); }

  Result<Schedule> planned_schedule() const {
    if (!task_.schedule)
      return make_schedule(
          {.name = c_.schedule, .stages = c_.stages, .micro_batches = c_.micro_batches, .chunks = c_.chunks});
    const Schedule& given = *task_.schedule;
    if (given.stages != c_.stages || given.micro_batches != c_.micro_batches)
      return wrong(cat("schedule '", given.name, "' has ", given.stages, " stages and ", given.micro_batches,
                       " micro-batches, the composition ", c_.stages, " and ", c_.micro_batches));
    return given;
  }

  Status check_composition() const {
    if (c_.devices() == 0 || c_.micro_batch < 1 || c_.micro_batches < 1)
      return wrong("a composition has at least one replica, stage, device and sample: " + composition_text(c_));
    if (c_.tensor > 1 && task_.model.heads == 0)
      return wrong(
          cat("tensor = ", c_.tensor, ": only a transformer's matrix products are split, this is ", task_.model.name));
    if (c_.tensor > 1 && task_.model.heads % c_.tensor != 0)
      return wrong(
          cat("tensor = ", c_.tensor, " does not divide the model's ", task_.model.heads, " heads of attention"));
    if (c_.tensor > hardware_.devices_per_node)
      return wrong(cat("tensor = ", c_.tensor, " is more than the ", hardware_.devices_per_node, " devices of a node (",
                       hardware_.name, "): what the group exchanges needs the links within one"));
    if (c_.devices() > static_cast<uint64_t>(hardware_.devices))
      return wrong(
          cat(composition_text(c_), " needs ", c_.devices(), " devices, ", hardware_.name, " has ", hardware_.devices));
    if (task_.measured && task_.measured->layers.size() != task_.model.layers.size())
      return wrong(cat("the profile has ", task_.measured->layers.size(), " rows, this model ",
                       task_.model.layers.size(), ": profile it again with `troupe profile`"));
    if (c_.zero > 3) return wrong(cat("zero = ", c_.zero, ": 0 to 3"));
    return {};
  }

  Status cut(uint32_t chunks) {
    std::vector<LayerCost> costs;
    for (size_t row = 0; row < task_.model.layers.size(); ++row) {
      times_.push_back(layer_times(task_, c_, row));
      LayerCost cost{.name = task_.model.layers[row].name, .layers = task_.model.layers[row].layers};
      cost.forward = times_.back().all().sum();
      costs.push_back(cost);
    }
    const PartitionOptions options{.devices = chunks, .count_transfers = false};
    auto partition = task_.counts.empty() ? ps::partition(costs, options) : cut_by_counts(costs, options);
    if (!partition) return tl::unexpected(partition.error());
    result_.cut = std::move(*partition);
    return {};
  }

  /// The counts are of the model's layers, a row may be several.
  Result<Partition> cut_by_counts(const std::vector<LayerCost>& costs, const PartitionOptions& options) const {
    std::vector<int64_t> rows;
    size_t row = 0;
    for (const int64_t count : task_.counts) {
      int64_t left = count, taken = 0;
      for (; left > 0 && row < costs.size(); ++row, ++taken) left -= costs[row].layers;
      if (left != 0)
        return wrong(cat("chunk ", rows.size(), " with ", count,
                         " layers cuts where the model cannot be cut, or ends beyond it"));
      rows.push_back(taken);
    }
    if (rows.size() != options.devices)
      return wrong(cat(rows.size(), " counts of layers for ", options.devices, " chunks"));
    return partition_by_counts(costs, rows, options);
  }

  template <class Of>
  double sum_over(uint32_t chunk, Of&& of) const {
    const StageRange& range = result_.cut.stages[chunk];
    double sum = 0;
    for (size_t row = range.first; row < range.last; ++row) sum += of(task_.model.layers[row]);
    return sum;
  }

  double parameters(uint32_t chunk) const {
    const StageRange& range = result_.cut.stages[chunk];
    double sum = 0;
    for (size_t row = range.first; row < range.last; ++row) {
      const LayerLoad& layer = task_.model.layers[row];
      sum += layer.parameters;
      // Tied weights are there once where both readers are.
      if (c_.stages > 1) sum += layer.shared_parameters;
    }
    return sum / c_.tensor;
  }

  /// What one chunk keeps of one micro-batch. Where each layer's weight gradient follows its input gradient at once,
  /// nothing is kept between them.
  ActivationSizes activations(const Schedule& schedule, uint32_t chunk) const {
    const auto weights = [&](const LayerLoad& layer) { return layer.weight_bytes * samples_ / c_.tensor; };
    return {sum_over(chunk, [&](const LayerLoad& layer) { return kept_bytes(layer, samples_, c_); }),
            schedule.fused_backward ? 0 : sum_over(chunk, weights)};
  }

  void set_memory(const Schedule& schedule) {
    std::vector<ActivationSizes> sizes;
    for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk) sizes.push_back(activations(schedule, chunk));
    const auto peaks = peak_activations(schedule, sizes);
    std::vector<double> counts(schedule.stages, 0), stashed(schedule.stages, 0), again(schedule.stages, 0);
    for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
      const uint32_t stage = schedule.stage_of[chunk];
      counts[stage] += parameters(chunk);
      if (schedule.weights != WeightVersions::flushed)
        stashed[stage] += parameters(chunk) * (weight_copies(schedule, chunk) - 1);
      again[stage] = std::max(again[stage], largest_remade(chunk));
    }
    const StateBytes state = state_bytes(c_.zero, c_.replicas, task_.model.bytes_a_value);
    for (uint32_t stage = 0; stage < schedule.stages; ++stage) {
      const MemoryPlan memory{counts[stage] * state.weights + stashed[stage] * task_.model.bytes_a_value,
                              counts[stage] * state.gradients, counts[stage] * state.optimizer,
                              peaks[stage] + again[stage]};
      if (stage > 0 && memory.total() <= result_.memory.total()) continue;
      result_.memory = memory, result_.memory_stage = stage;
    }
    result_.fits = result_.memory.total() <= hardware_.memory_gb * 1e9;
  }

  /// Of one layer while its backward runs, under full recomputation.
  double largest_remade(uint32_t chunk) const {
    if (c_.recompute != Recompute::full) return 0;
    Composition keeping = c_;
    keeping.recompute = Recompute::none;
    const StageRange& range = result_.cut.stages[chunk];
    double most = 0;
    for (size_t row = range.first; row < range.last; ++row)
      most = std::max(most, kept_bytes(task_.model.layers[row], samples_, keeping));
    return most;
  }

  ChunkTimes chunk_times(uint32_t chunk) {
    const StageRange& range = result_.cut.stages[chunk];
    LayerTimes sum;
    for (size_t row = range.first; row < range.last; ++row) sum += times_[row];
    ChunkTimes times{sum.forward.sum(), sum.backward_input.sum(), sum.backward_weight.sum()};
    const double bytes = parameters(chunk) * task_.model.bytes_a_value, n = c_.replicas;
    const double speed = hardware_.bytes_per_s(c_.devices());
    if (c_.zero >= 3) {
      // Parameters are gathered while the layers before compute; what takes longer decides.
      times.forward = std::max(times.forward, reduce_scatter_s(bytes, n, speed));
      times.backward_input = std::max(times.backward_input, reduce_scatter_s(bytes, n, speed));
    }
    const double output = task_.model.layers[range.last - 1].output_bytes * samples_ / c_.tensor;
    const bool has_next = chunk + 1 < result_.cut.stages.size();
    if (has_next && c_.stages > 1) {
      times.transfer = hardware_.latency_us * 1e-6 + output / hardware_.bytes_per_s(uint64_t{c_.stages} * c_.tensor);
      result_.transfer_bytes = std::max(result_.transfer_bytes, output);
      result_.transfer_s = std::max(result_.transfer_s, times.transfer);
    }
    times.all_reduce = all_reduce_s(bytes, n, speed) + (n > 1 ? hardware_.latency_us * 1e-6 : 0);
    times.step = 2 * parameters(chunk) * state_bytes(c_.zero, n, task_.model.bytes_a_value).sum() /
                 (hardware_.memory_gb_per_s * 1e9);
    return times;
  }

  void set_times(const Schedule& schedule) {
    std::vector<ChunkTimes> whole;
    for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk) whole.push_back(chunk_times(chunk));
    std::vector<ChunkTimes> alone = whole, free = whole;  // without the end of the step; and without exchange alone
    for (ChunkTimes& times : alone) times.all_reduce = times.step = 0;
    for (ChunkTimes& times : free) times.all_reduce = 0;
    const Timing pipeline = simulate(schedule, alone);
    const double with_step = simulate(schedule, free).cost;
    result_.step_s = simulate(schedule, whole).cost;
    result_.bubble_of_ideal = pipeline.bubble_of_ideal();
    result_.bubble_of_total = pipeline.bubble_of_total();
    result_.bubble_s = pipeline.bubble();
    for (const double busy : pipeline.busy) result_.busy.push_back(busy / pipeline.cost);
    set_shares(schedule, pipeline, with_step);
    set_exchange(schedule, whole);
    const double batch = samples_ * c_.micro_batches * c_.replicas;
    result_.samples_per_s = batch / result_.step_s;
    double flops = 0;
    for (const LayerLoad& layer : task_.model.layers)
      flops += layer.forward_flops * (c_.recompute == Recompute::full && layer.recomputes ? 4 : 3);
    result_.tflops_a_device = flops * batch / result_.step_s / static_cast<double>(c_.devices()) / 1e12;
  }

  void set_shares(const Schedule& schedule, const Timing& pipeline, double with_step) {
    const auto busiest =
        static_cast<uint32_t>(std::max_element(pipeline.busy.begin(), pipeline.busy.end()) - pipeline.busy.begin());
    PassTime passes;
    for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk)
      if (schedule.stage_of[chunk] == busiest)
        for (size_t row = result_.cut.stages[chunk].first; row < result_.cut.stages[chunk].last; ++row)
          passes += times_[row].all();
    const double m = c_.micro_batches;
    const double waited = std::max(0.0, pipeline.ideal() - passes.sum() * m);
    result_.shares = {{task_.measured ? "computation as measured" : "arithmetic", passes.arithmetic * m},
                      {"memory traffic", passes.traffic * m},
                      {"exchange in tensor groups", passes.exchange * m},
                      {"gathering of sharded parameters", waited},
                      {"bubble", pipeline.bubble()},
                      {"optimizer step", with_step - pipeline.cost},
                      {"exchange of gradients that nothing hides", result_.step_s - with_step}};
    std::stable_sort(result_.shares.begin(), result_.shares.end(),
                     [](const TimeShare& a, const TimeShare& b) { return a.seconds > b.seconds; });
  }

  /// Of the stage with most parameters.
  void set_exchange(const Schedule& schedule, const std::vector<ChunkTimes>& times) {
    std::vector<double> seconds(schedule.stages, 0), bytes(schedule.stages, 0);
    for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
      seconds[schedule.stage_of[chunk]] += times[chunk].all_reduce;
      bytes[schedule.stage_of[chunk]] += parameters(chunk) * task_.model.bytes_a_value;
    }
    result_.gradient_exchange_s = *std::max_element(seconds.begin(), seconds.end());
    result_.gradient_bytes = *std::max_element(bytes.begin(), bytes.end());
  }

  const PlanTask& task_;
  const Composition& c_;
  const Hardware& hardware_;
  const double samples_;
  std::vector<LayerTimes> times_;  // by row, of one micro-batch
  Plan result_;
};

}  // namespace

const std::string& Plan::limit() const {
  static const std::string memory = "memory";
  return fits ? shares.front().what : memory;
}

Result<Plan> plan(const PlanTask& task, const Composition& composition) {
  return Planner(task, composition).plan(false);
}

Result<Plan> plan_if_it_fits(const PlanTask& task, const Composition& composition) {
  return Planner(task, composition).plan(true);
}

}  // namespace troupe::ps
