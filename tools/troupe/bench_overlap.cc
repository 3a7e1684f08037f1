#include <algorithm>
#include <barrier>
#include <iostream>
#include <thread>

#include <troupe/actors/local_update.h>
#include <troupe/ps/config/load.h>
#include <troupe/ps/data/sampler.h>
#include <troupe/ps/metrics/human.h>

#include "bench.h"

using namespace troupe;

namespace {

constexpr double kMostBeyond = 5;  // percent

struct Arguments {
  ConfigArguments config;
  std::vector<int64_t> bucket_bytes;
  Timing timing{10, 60};
  int repetitions = 5;
};

/// All layers are all-reduced, by as many workers as the config says.
Result<ClusterParts> reduced_parts(ps::RunConfig config) {
  config.update = {{"*", {ps::Mode::all_reduce}}};
  return parts_of(config);
}

double step_s(const ClusterParts& parts, const Timing& timing) {
  return static_cast<double>(parts.coordinator.dealer.global_batch) / measure_speed(parts, timing).samples_per_second;
}

/// A worker alone: its own parameters, of which each step updates the share that the worker has in the run's sums.
class LoneWorker {
 public:
  LoneWorker(const ClusterParts& parts, size_t worker, bool updates)
      : source_(parts.source(static_cast<ps::WorkerId>(worker))), optimizer_(updates ? parts.optimizer : nullptr) {
    const auto workers = static_cast<int64_t>(parts.coordinator.dealer.worker_batch.size());
    const auto rank = static_cast<int64_t>(worker);
    for (size_t layer = 0; layer < source_->layers().size(); ++layer) {
      const int64_t count = source_->layers()[layer].count;
      weights_.push_back(Tensor::empty({count}));
      source_->initialize(layer, parts.seed, weights_.back().span<float>());
      ps::SliceState& local = local_.emplace_back();
      for (size_t i = 0; i < parts.optimizer->state_names().size(); ++i) local.state.push_back(Tensor::zeros({count}));
      shares_.emplace_back(count * rank / workers, count * (rank + 1) / workers);
    }
  }

  void step(const Batch& batch) {
    source_->forward(batch, weights_, 0, weights_.size());
    std::vector<Tensor> gradients(weights_.size());
    source_->backward(batch, weights_, [&](size_t layer, const Tensor& gradient) {
      if (optimizer_) gradients[layer] = gradient;
    });
    if (optimizer_)
      for (size_t layer = 0; layer < weights_.size(); ++layer) update(layer, gradients[layer], batch.samples.size());
  }

 private:
  void update(size_t layer, const Tensor& gradient, size_t samples) {
    ps::ApplyLocal task;
    task.gradient_scale = 1 / static_cast<double>(samples);
    task.local = local_[layer];
    task.local.values = weights_[layer];
    const auto [begin, end] = shares_[layer];
    update_range(*optimizer_, source_->layers()[layer], task, std::span(&gradient, 1), begin, end, weights_[layer]);
    ++local_[layer].updates;
  }

  std::unique_ptr<GradientSource> source_;
  std::shared_ptr<const ps::Optimizer> optimizer_;
  std::vector<Tensor> weights_;
  std::vector<ps::SliceState> local_;
  std::vector<std::pair<int64_t, int64_t>> shares_;
};

/// All workers at once, which exchange nothing: seconds a step, which is over when the last one has done it.
double compute_s(const ClusterParts& parts, const Timing& timing, bool updates) {
  const std::vector<int64_t>& batches = parts.coordinator.dealer.worker_batch;
  std::barrier all(static_cast<std::ptrdiff_t>(batches.size()));
  double seconds = 0;
  std::vector<std::jthread> threads;
  for (size_t worker = 0; worker < batches.size(); ++worker)
    threads.emplace_back([&, worker] {
      LoneWorker alone(parts, worker, updates);
      std::vector<uint32_t> samples(static_cast<size_t>(batches[worker]));
      const auto step = [&](int64_t number) {
        for (uint32_t& sample : samples)
          sample = static_cast<uint32_t>((sample + 7919) % parts.coordinator.dealer.train_samples);
        alone.step({samples, static_cast<uint64_t>(number)});
        all.arrive_and_wait();
      };
      for (int64_t i = 0; i < timing.warm_steps; ++i) step(i);
      const double begin = now_s();
      for (int64_t i = 0; i < timing.steps; ++i) step(i);
      if (worker == 0) seconds = (now_s() - begin) / static_cast<double>(timing.steps);
    });
  threads.clear();
  return seconds;
}

/// The same run with gradients that cost nothing: sums, optimizer steps and messages alone.
ClusterParts without_computing(ClusterParts parts) {
  const std::vector<Tensor> gradients = synthetic_gradients(parts.coordinator.layers);
  parts.source = [layers = parts.coordinator.layers, gradients](ps::WorkerId) {
    return std::make_unique<SyntheticSource>(layers, gradients, SyntheticSource::Options{});
  };
  return parts;
}

int overlap(const Arguments& a) {
  const auto loaded = load(a.config);
  if (!loaded) return report(loaded.error());
  std::vector<int64_t> sizes = a.bucket_bytes;
  if (sizes.empty()) sizes = {loaded->config.parallel.bucket_bytes};
  std::vector<std::vector<std::string>> table{{"bucket", "passes ms", "with updates ms", "reduce ms", "together ms",
                                               "beyond passes %", "beyond the slower %"}};
  std::vector<double> worst;
  for (const int64_t bytes : sizes) {
    ps::RunConfig config = loaded->config;
    config.parallel.bucket_bytes = bytes;
    const auto whole = reduced_parts(config);
    if (!whole) return report(whole.error());
    const ClusterParts reducing = without_computing(*whole);
    const auto seconds = alternate(
        a.repetitions,
        {[&] { return compute_s(*whole, a.timing, false); }, [&] { return compute_s(*whole, a.timing, true); },
         [&] { return step_s(reducing, a.timing); }, [&] { return step_s(*whole, a.timing); }});
    std::vector<double> beyond_passes, beyond;
    for (size_t i = 0; i < seconds[0].size(); ++i) {
      const double together = seconds[3][i];
      beyond_passes.push_back(100 * (together / seconds[0][i] - 1));
      beyond.push_back(100 * (together / std::max(seconds[1][i], seconds[2][i]) - 1));
    }
    worst.push_back(median(beyond));
    const auto ms = [&](size_t column, int digits) { return ps::fixed(median(seconds[column]) * 1e3, digits); };
    table.push_back({ps::human_bytes(bytes), ms(0, 2), ms(1, 2), ms(2, 3), ms(3, 2),
                     ps::fixed(median(beyond_passes), 1), ps::fixed(worst.back(), 1)});
  }
  std::cout << loaded->config.parallel.workers << " workers, all layers all-reduced\n"
            << ps::text_table(table)
            << verdict("a step costs beyond the slower of computing and reducing", worst.front(), kMostBeyond, false,
                       " %")
            << std::endl;
  return kOk;
}

}  // namespace

void add_bench_overlap(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "overlap", "A step of workers that all-reduce, beside its computing alone and its reducing alone");
  command->footer(
      "Computing is passes and updates: every worker for itself, each updating as many parameters as in the run.\n"
      "Reducing is the same run with gradients that cost nothing: sums, updates and messages.");
  auto arguments = std::make_shared<Arguments>();
  add_config_arguments(*command, arguments->config);
  command->add_option("--bucket-bytes", arguments->bucket_bytes, "Bucket sizes to try; none: the config's")
      ->delimiter(',');
  command->add_option("--steps", arguments->timing.steps, "Steps a measurement")->capture_default_str();
  command->add_option("--repetitions", arguments->repetitions, "Measurements of each")->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = overlap(*arguments); });
}
