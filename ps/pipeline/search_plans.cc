#include <troupe/ps/pipeline/search_plans.h>

#include <algorithm>
#include <optional>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

/// A composition with more actions has micro-batches without need, or takes longer to plan than it is worth.
constexpr uint64_t kMostActions = 1'000'000;
constexpr int64_t kMostSamples = 64;  ///< a micro-batch

struct Order {
  const char* schedule;
  uint32_t chunks;
};

std::vector<Order> orders_for(uint32_t stages) {
  if (stages == 1) return {{"1f1b", 1}};
  return {{"1f1b", 1},  {"interleaved", 2}, {"interleaved", 3}, {"interleaved", 4},
          {"zb-h1", 1}, {"zb-h2", 1},       {"zb-v", 2}};
}

class Search {
 public:
  Search(const PlanTask& task, int64_t batch) : task_(task), batch_(batch) {}

  Result<std::vector<Plan>> run(size_t most) {
    const auto devices = static_cast<uint32_t>(task_.hardware.devices);
    for (uint32_t tensor = 1; tensor <= task_.hardware.devices_per_node && devices % tensor == 0; tensor *= 2)
      if (tensor == 1 || (task_.model.heads > 0 && task_.model.heads % tensor == 0))
        for (uint32_t stages = 1; stages <= std::min<size_t>(devices / tensor, task_.model.layers.size()); ++stages)
          if (devices / tensor % stages == 0)
            try_micro_batches({.replicas = devices / tensor / stages, .stages = stages, .tensor = tensor});
    if (found_.empty()) return nothing();
    std::stable_sort(found_.begin(), found_.end(), [](const Plan& a, const Plan& b) { return a.step_s < b.step_s; });
    found_.resize(std::min(found_.size(), most));
    return std::move(found_);
  }

 private:
  void try_micro_batches(Composition c) {
    if (batch_ % c.replicas != 0) return;
    for (const Order& order : orders_for(c.stages)) {
      c.schedule = order.schedule, c.chunks = order.chunks;
      if (uint64_t{c.stages} * c.chunks > task_.model.layers.size()) continue;
      if (auto best = best_micro_batch(c)) found_.push_back(std::move(*best));
    }
  }

  /// The larger one where both are as good.
  std::optional<Plan> best_micro_batch(Composition c) {
    const int64_t each = batch_ / c.replicas;
    std::optional<Plan> best;
    for (c.micro_batch = 1; c.micro_batch <= std::min(each, kMostSamples) && each % c.micro_batch == 0;
         c.micro_batch *= 2) {
      c.micro_batches = static_cast<uint32_t>(each / c.micro_batch);
      if (3 * uint64_t{c.stages} * c.chunks * c.micro_batches > kMostActions) continue;
      auto plan = try_to_fit(c);
      if (plan && (!best || plan->step_s <= best->step_s * 1.001)) best = std::move(plan);
    }
    return best;
  }

  /// What costs least first.
  std::optional<Plan> try_to_fit(Composition c) {
    c.sequence_parallel = c.tensor > 1;
    const bool attention = task_.model.heads > 0;
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      if (recompute == Recompute::selective && !attention) continue;
      c.recompute = recompute;
      for (c.zero = c.replicas > 1 ? 1 : 0; c.zero <= (c.replicas > 1 ? 3u : 0u); ++c.zero) {
        auto planned = plan_if_it_fits(task_, c);
        if (!planned) return {};
        if (planned->fits) return std::move(*planned);
        if (!nearest_ || planned->memory.total() < nearest_->memory.total()) nearest_ = std::move(*planned);
      }
    }
    return {};
  }

  tl::unexpected<Error> nothing() const {
    if (!nearest_)
      return fail(ErrorKind::invalid, cat("no composition of ", task_.hardware.devices, " devices takes ", batch_,
                                          " samples a step: the batch should be a multiple of the number of replicas"));
    return fail(ErrorKind::exhausted,
                cat("nothing fits: of all compositions of ", task_.hardware.devices, " devices, ",
                    composition_text(nearest_->composition), " needs least memory, ", nearest_->memory.total() / 1e9,
                    " GB a device, which has ", task_.hardware.memory_gb, " (", task_.hardware.name,
                    "): use more devices, a smaller model or smaller micro-batches"));
  }

  const PlanTask& task_;
  int64_t batch_;
  std::vector<Plan> found_;
  std::optional<Plan> nearest_;
};

}  // namespace

Result<std::vector<Plan>> search_plans(const PlanTask& task, int64_t batch, size_t most) {
  return Search(task, batch).run(most);
}

}  // namespace troupe::ps
