#include <troupe/ps/pipeline/plan_text.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/human.h>
#include <troupe/ps/pipeline/collective_cost.h>

namespace troupe::ps {
namespace {

constexpr size_t kLabel = 11;

std::string line(std::string label, const std::string& text) {
  label.resize(kLabel, ' ');
  return label + text + '\n';
}

std::string bytes(double value) { return human_bytes(std::llround(value)); }

/// "12.3 ms": three digits that count.
std::string duration(double seconds) {
  if (seconds >= 100) return human_duration(seconds);
  static constexpr std::array<std::pair<double, const char*>, 3> kUnits = {{{1, " s"}, {1e-3, " ms"}, {1e-6, " us"}}};
  for (const auto& [unit, name] : kUnits)
    if (seconds >= unit) return fixed(seconds / unit, seconds / unit < 100 ? 2 : 0) + name;
  return seconds > 0 ? fixed(seconds * 1e6, 2) + " us" : "0 s";
}

std::string chunk_text(const PlanTask& task, const StageRange& range) {
  const std::string& first = task.model.layers[range.first].name;
  const std::string& last = task.model.layers[range.last - 1].name;
  return range.last - range.first == 1 ? first : cat(first, "..", last);
}

std::string chunks_text(const PlanTask& task, const Plan& plan) {
  std::string text;
  constexpr size_t kMost = 8;
  for (size_t k = 0; k < plan.cut.stages.size(); ++k) {
    if (k == kMost) return text + cat(" | ... ", plan.cut.stages.size() - kMost, " more");
    text += (k == 0 ? "" : " | ") + chunk_text(task, plan.cut.stages[k]);
  }
  return text;
}

/// How unequal the stages are.
std::string busy_text(const Plan& plan) {
  const auto [least, most] = std::minmax_element(plan.busy.begin(), plan.busy.end());
  const auto stage = [&](auto at) { return cat("stage ", at - plan.busy.begin(), ' ', human_share(*at)); };
  return cat("busiest ", stage(most), " of the time, least ", stage(least));
}

std::string memory_text(const PlanTask& task, const Plan& plan) {
  const MemoryPlan& m = plan.memory;
  const double room = task.hardware.memory_gb * 1e9;
  return cat(bytes(m.total()), " of ", bytes(room), " on stage ", plan.memory_stage, ", which needs most: weights ",
             bytes(m.weights), ", gradients ", bytes(m.gradients), ", optimizer ", bytes(m.optimizer), ", activations ",
             bytes(m.activations),
             plan.fits ? "; it fits" : cat("; it does NOT fit, ", bytes(m.total() - room), " are missing"));
}

std::string gradients_text(const PlanTask& task, const Plan& plan) {
  const double n = plan.composition.replicas;
  if (plan.composition.replicas == 1) return "one replica: nothing to exchange";
  const double speed = task.hardware.bytes_per_s(plan.composition.devices());
  return cat(bytes(plan.gradient_bytes), " a device among ", plan.composition.replicas, " replicas: all-reduce ",
             duration(plan.gradient_exchange_s), "; by servers on as many machines more ",
             duration(servers_everywhere_s(plan.gradient_bytes, n, n, speed)), ", on a quarter as many ",
             duration(servers_everywhere_s(plan.gradient_bytes, n, std::max(1.0, std::floor(n / 4)), speed)));
}

std::string limit_text(const Plan& plan) {
  if (!plan.fits) return "memory";
  std::string text;
  for (const TimeShare& share : plan.shares) {
    if (share.seconds < 0.005 * plan.step_s) break;
    text += cat(text.empty() ? "" : ", then ", share.what, ' ', human_share(share.seconds / plan.step_s));
  }
  return text;
}

}  // namespace

std::string plan_report(const PlanTask& task, const Plan& plan) {
  const Composition& c = plan.composition;
  std::string text;
  text += line("model", cat(task.model.name, ", ", human_count(std::llround(task.model.parameters())), " parameters"));
  text += line("hardware",
               cat(task.hardware.name, ": ", task.hardware.devices, " devices, of which this uses ", c.devices()));
  text += line("spread", composition_text(c) + " (replicas x stages x tensor)");
  if (c.stages > 1) text += line("chunks", chunks_text(task, plan));
  text += line("memory", memory_text(task, plan));
  text +=
      line("step", cat(duration(plan.step_s), " for ", c.micro_batch * c.micro_batches * c.replicas,
                       " samples: ", fixed(plan.samples_per_s, 1), " samples/s",
                       plan.tflops_a_device > 0 ? cat(", ", fixed(plan.tflops_a_device, 2), " TFLOP/s a device") : ""));
  text += line("bubble", cat(duration(plan.bubble_s), ": ", human_share(plan.bubble_of_total), " of total time, ",
                             human_share(plan.bubble_of_ideal), " of ideal time"));
  if (c.stages > 1) text += line("stages", busy_text(plan));
  text += line("gradients", gradients_text(task, plan));
  if (c.stages > 1)
    text += line("transfers",
                 cat(bytes(plan.transfer_bytes), " a micro-batch from stage to stage, ", duration(plan.transfer_s)));
  text += line("limit", limit_text(plan));
  return text;
}

std::string plan_table(const std::vector<Plan>& plans) {
  std::vector<std::vector<std::string>> rows = {{"replicas x stages x tensor, schedule", "step", "samples/s", "TFLOP/s",
                                                 "memory", "bubble (total)", "bubble (ideal)", "limit"}};
  for (const Plan& plan : plans)
    rows.push_back({composition_text(plan.composition), duration(plan.step_s), fixed(plan.samples_per_s, 1),
                    fixed(plan.tflops_a_device, 1), bytes(plan.memory.total()), human_share(plan.bubble_of_total),
                    human_share(plan.bubble_of_ideal), plan.limit()});
  return text_table(rows);
}

}  // namespace troupe::ps
