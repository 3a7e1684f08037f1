#include <algorithm>
#include <barrier>
#include <iostream>
#include <thread>

#include <troupe/kernels/base/random.h>
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

std::vector<Tensor> first_weights(GradientSource& source, uint64_t seed) {
  std::vector<Tensor> weights;
  for (size_t layer = 0; layer < source.layers().size(); ++layer) {
    weights.push_back(Tensor::empty({source.layers()[layer].count}));
    source.initialize(layer, seed, weights.back().span<float>());
  }
  return weights;
}

/// Forward and backward passes of all workers at once, which exchange nothing and change no weights: seconds a step,
/// which is over when the last one has done it.
double compute_s(const ClusterParts& parts, const Timing& timing) {
  const std::vector<int64_t>& batches = parts.coordinator.dealer.worker_batch;
  std::barrier all(static_cast<std::ptrdiff_t>(batches.size()));
  double seconds = 0;
  std::vector<std::jthread> threads;
  for (size_t worker = 0; worker < batches.size(); ++worker)
    threads.emplace_back([&, worker] {
      const auto source = parts.source(static_cast<ps::WorkerId>(worker));
      const std::vector<Tensor> weights = first_weights(*source, parts.seed);
      std::vector<uint32_t> samples(static_cast<size_t>(batches[worker]));
      const auto step = [&](int64_t number) {
        for (uint32_t& sample : samples)
          sample = static_cast<uint32_t>((sample + 7919) % parts.coordinator.dealer.train_samples);
        const Batch batch{samples, static_cast<uint64_t>(number)};
        source->forward(batch, weights, 0, weights.size());
        source->backward(batch, weights, [](size_t, const Tensor&) {});
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
  std::vector<std::vector<std::string>> table{
      {"bucket", "compute ms", "reduce ms", "together ms", "beyond the slower %"}};
  std::vector<double> worst;
  for (const int64_t bytes : sizes) {
    ps::RunConfig config = loaded->config;
    config.parallel.bucket_bytes = bytes;
    const auto whole = reduced_parts(config);
    if (!whole) return report(whole.error());
    const ClusterParts reducing = without_computing(*whole);
    const auto seconds = alternate(
        a.repetitions, {[&] { return compute_s(*whole, a.timing); }, [&] { return step_s(reducing, a.timing); },
                        [&] { return step_s(*whole, a.timing); }});
    std::vector<double> beyond;
    for (size_t i = 0; i < seconds[0].size(); ++i)
      beyond.push_back(100 * (seconds[2][i] / std::max(seconds[0][i], seconds[1][i]) - 1));
    worst.push_back(median(beyond));
    table.push_back({ps::human_bytes(bytes), ps::fixed(median(seconds[0]) * 1e3, 2),
                     ps::fixed(median(seconds[1]) * 1e3, 3), ps::fixed(median(seconds[2]) * 1e3, 2),
                     ps::fixed(worst.back(), 1)});
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
  auto arguments = std::make_shared<Arguments>();
  add_config_arguments(*command, arguments->config);
  command->add_option("--bucket-bytes", arguments->bucket_bytes, "Bucket sizes to try; none: the config's")
      ->delimiter(',');
  command->add_option("--steps", arguments->timing.steps, "Steps a measurement")->capture_default_str();
  command->add_option("--repetitions", arguments->repetitions, "Measurements of each")->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = overlap(*arguments); });
}
