#include <troupe/ps/metrics/summarize.h>

#include <algorithm>
#include <set>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/human.h>

namespace troupe::ps {
namespace {

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::completed: return "finished";
    case Outcome::interrupted: return "interrupted";
    case Outcome::failed: return "failed";
  }
  return "?";
}

double mean(double sum, int64_t count) { return sum / static_cast<double>(count); }

void add_counters(const LayerCounters& from, LayerSummary& to) {
  to.pushes = from.pushes;
  to.updates = from.updates;
  to.pushed_bytes = from.pushed_bytes;
  to.pulled_bytes = from.pulled_bytes;
  to.staleness = Histogram(from.lag_histogram);
  to.delay = Histogram(from.delay_histogram);
}

}  // namespace

std::vector<LayerSummary> layers_of(const Layout& layout, int64_t workers) {
  std::vector<LayerSummary> layers;
  for (LayerId id = 0; id < layout.layers.size(); ++id) {
    std::set<ServerId> servers;
    for (const Slice& slice : layout.slices)
      if (slice.layer == id) servers.insert(slice.server);
    LayerSummary layer;
    layer.name = layout.layers[id].name;
    layer.policy = describe(layout.policies[id]) + (layout.layers[id].row_width > 0 ? ", by rows" : "");
    layer.parameters = layout.layers[id].count;
    layer.shards = static_cast<int64_t>(servers.size());
    layer.step_bytes = 2 * static_cast<int64_t>(sizeof(float)) * layer.parameters * workers;
    layers.push_back(std::move(layer));
  }
  return layers;
}

RunSummary summarize(const RunResult& result, double seconds) {
  RunSummary s;
  s.outcome = name_of(result.outcome);
  s.error = result.failure;
  s.steps = result.steps;
  s.samples = result.samples;
  s.seconds = seconds;
  s.samples_per_second = seconds > 0 ? static_cast<double>(result.samples) / seconds : 0;
  if (const StepStats& test = result.evaluation.stats; test.samples > 0) {
    s.test_accuracy = mean(static_cast<double>(test.correct), test.samples);
    s.test_loss = mean(test.loss_sum, test.samples);
  }
  if (const StepStats& train = result.last_epoch; train.samples > 0) s.train_loss = mean(train.loss_sum, train.samples);
  s.skipped_steps = result.skipped_steps;
  s.loss_scale = result.loss_scale;
  s.restarts = result.worker_restarts + result.server_restarts;
  s.checkpoints_written = result.checkpoints_written;
  s.checkpoints_failed = result.checkpoints_failed;
  s.duplicates_dropped = result.duplicates_dropped;
  s.refused = result.refused;
  s.lost = result.lost;
  if (result.layout) s.layers = layers_of(*result.layout, static_cast<int64_t>(result.workers.size()));
  for (const LayerCounters& counters : result.layers)
    if (counters.layer < s.layers.size()) add_counters(counters, s.layers[counters.layer]);
  for (size_t i = 0; i < result.workers.size(); ++i) {
    const WorkerReport& w = result.workers[i];
    s.workers.push_back({static_cast<int64_t>(i), w.samples, w.pieces, w.compute_s, w.wait_s});
  }
  return s;
}

std::string server_line(const Layout& layout) {
  std::vector<int64_t> bytes = bytes_by_server(layout);
  std::string held;
  if (bytes.size() <= 4) {
    for (size_t i = 0; i < bytes.size(); ++i)
      held += cat(i == 0 ? "" : i + 1 == bytes.size() ? " and " : ", ", human_bytes(bytes[i]));
  } else {
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    held = cat(human_bytes(*least), " to ", human_bytes(*most));
  }
  return cat(bytes.size(), bytes.size() == 1 ? " server holds " : " servers hold ", held, "; fullest to mean ",
             fixed(imbalance(layout), 2), "\n");
}

std::string stage_line(const Layout& layout) {
  if (layout.stages == 1) return {};
  std::string text;
  for (uint32_t stage = 0; stage < layout.stages; ++stage) {
    text += cat(stage == 0 ? "" : "; ", "stage ", stage, ":");
    // Runs of neighbouring layers: several, where a stage has several chunks.
    const char* separator = " ";
    for (size_t layer = 0; layer < layout.layers.size(); ++layer) {
      if (layout.stage_of[layer] != stage) continue;
      size_t last = layer;
      while (last + 1 < layout.layers.size() && layout.stage_of[last + 1] == stage) ++last;
      text += separator + layout.layers[layer].name;
      if (last > layer) text += (last == layer + 1 ? ", " : " to ") + layout.layers[last].name;
      separator = ", ";
      layer = last;
    }
  }
  return text + "\n";
}

}  // namespace troupe::ps
