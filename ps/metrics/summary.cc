#include <troupe/ps/metrics/summary.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/human.h>
#include <troupe/ps/metrics/internal/lost_range_json.h>

namespace troupe::ps {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

Json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json json_of(const Histogram& histogram) {
  return {{"p50", histogram.percentile(0.5)},
          {"p95", histogram.percentile(0.95)},
          {"max", histogram.max()},
          {"histogram", histogram.counts()}};
}

Json json_of(const LayerSummary& layer) {
  return {{"name", layer.name},
          {"policy", layer.policy},
          {"parameters", layer.parameters},
          {"shards", layer.shards},
          {"pushes", layer.pushes},
          {"updates", layer.updates},
          {"bytes_pushed", layer.pushed_bytes},
          {"bytes_pulled", layer.pulled_bytes},
          {"staleness", json_of(layer.staleness)},
          {"delay", json_of(layer.delay)}};
}

Json json_of(const WorkerSummary& worker) {
  return {{"worker", worker.worker},
          {"samples", worker.samples},
          {"steps", worker.steps},
          {"compute_s", number(worker.compute_s)},
          {"wait_s", number(worker.wait_s)}};
}

Json json_of(const LostRange& lost) { return lost_range_json<Json>(lost); }

template <class T>
Json list_of(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(json_of(item));
  return list;
}

/// "0 / 1 / 3": median, 95th percentile and maximum.
std::string spread(const Histogram& h) {
  if (h.total() == 0) return "-";
  return cat(h.percentile(0.5), " / ", h.percentile(0.95), " / ", h.max());
}

std::string traffic_table(const std::vector<LayerSummary>& layers) {
  Rows rows = {{"layer", "policy", "parameters", "pushed", "pulled", "updates", "staleness", "delay"}};
  for (const LayerSummary& layer : layers)
    rows.push_back({layer.name, layer.policy, human_count(layer.parameters), human_bytes(layer.pushed_bytes),
                    human_bytes(layer.pulled_bytes), human_count(layer.updates), spread(layer.staleness),
                    spread(layer.delay)});
  return text_table(rows) + "(staleness in steps and delay in updates: median / 95 % / maximum)\n";
}

std::string worker_table(const std::vector<WorkerSummary>& workers) {
  Rows rows = {{"worker", "steps", "samples", "compute", "waiting"}};
  for (const WorkerSummary& w : workers)
    rows.push_back({std::to_string(w.worker), human_count(w.steps), human_count(w.samples), human_duration(w.compute_s),
                    w.compute_s + w.wait_s > 0 ? human_share(w.wait_s / (w.compute_s + w.wait_s)) : "-"});
  return text_table(rows);
}

/// What went wrong without ending the run; "" if nothing did.
std::string trouble_text(const RunSummary& s) {
  std::string text;
  const auto add = [&](int64_t count, const char* one, const char* many) {
    if (count > 0) text += cat(text.empty() ? "" : ", ", human_count(count), ' ', count == 1 ? one : many);
  };
  add(s.skipped_steps, "step skipped (non-finite gradients)", "steps skipped (non-finite gradients)");
  add(s.restarts, "restart", "restarts");
  add(s.checkpoints_failed, "checkpoint that could not be written", "checkpoints that could not be written");
  add(s.lines_lost, "line of metrics or log that could not be written",
      "lines of metrics or log that could not be written");
  if (!text.empty()) text = "trouble: " + text + "\n";
  for (const LostRange& lost : s.lost) text += "lost: " + describe(lost) + "\n";
  return text;
}

std::string result_text(const RunSummary& s) {
  std::string text =
      cat(s.outcome, " after ", human_count(s.steps), " steps, ", human_count(s.samples), " samples, ",
          human_duration(s.seconds), ": ", human_count(std::llround(s.samples_per_second)), " samples/s\n");
  if (s.train_loss) text += "train loss " + fixed(*s.train_loss, 4) + "\n";
  if (s.test_accuracy)
    text += "test accuracy " + fixed(*s.test_accuracy, 4) +
            (s.test_loss ? ", test loss " + fixed(*s.test_loss, 4) : "") + "\n";
  return text;
}

}  // namespace

std::string summary_json(const RunSummary& s) {
  const Json json = {{"name", s.name},
                     {"outcome", s.outcome},
                     {"exit_code", s.exit_code},
                     {"error", s.error.empty() ? Json(nullptr) : Json(s.error)},
                     {"test_accuracy", number(s.test_accuracy)},
                     {"test_loss", number(s.test_loss)},
                     {"train_loss", number(s.train_loss)},
                     {"steps", s.steps},
                     {"samples", s.samples},
                     {"seconds", number(s.seconds)},
                     {"samples_per_second", number(s.samples_per_second)},
                     {"skipped_steps", s.skipped_steps},
                     {"loss_scale", number(s.loss_scale)},
                     {"restarts", s.restarts},
                     {"checkpoints_written", s.checkpoints_written},
                     {"checkpoints_failed", s.checkpoints_failed},
                     {"duplicates_dropped", s.duplicates_dropped},
                     {"refused", s.refused},
                     {"lines_lost", s.lines_lost},
                     {"updates_lost", updates_lost(s.lost)},
                     {"lost", list_of(s.lost)},
                     {"layers", list_of(s.layers)},
                     {"workers", list_of(s.workers)}};
  // A file name in an error need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string layer_table(const std::vector<LayerSummary>& layers) {
  Rows rows = {{"layer", "policy", "parameters", "shards", "bytes a step"}};
  for (const LayerSummary& layer : layers)
    rows.push_back({layer.name, layer.policy, human_count(layer.parameters), human_count(layer.shards),
                    human_bytes(layer.step_bytes)});
  return text_table(rows);
}

std::string summary_text(const RunSummary& summary) {
  // Servers are asked for their counts at a run's regular end only.
  const std::string traffic = summary.outcome == "failed" ? "" : traffic_table(summary.layers) + "\n";
  return traffic + worker_table(summary.workers) + "\n" + trouble_text(summary) + result_text(summary);
}

}  // namespace troupe::ps
