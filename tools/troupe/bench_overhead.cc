#include <iostream>

#include <troupe/kernels/base/random.h>
#include <troupe/ps/config/load.h>
#include <troupe/ps/data/sampler.h>
#include <troupe/ps/metrics/human.h>
#include <troupe/ps/param/held_slice.h>
#include <troupe/ps/param/layout.h>

#include "bench.h"

using namespace troupe;

namespace {

constexpr double kMostOverhead = 5;  // percent

/// The README's first model on data that every machine has.
constexpr const char* kDefaultConfig = R"(
[data]
format = "synthetic"
samples = 20000
features = 784
[model]
hidden = [512, 256]
[train]
batch_size = 128
[optimizer]
momentum = 0.9
)";

struct Arguments {
  ConfigArguments config;
  Timing timing{20, 150};
  int repetitions = 7;
};

/// The same steps without actors, messages and checks: read samples, forward, backward, optimizer.
Speed plain_loop(const ClusterParts& parts, const Timing& timing) {
  ps::LayoutOptions options;
  options.whole_layers = true;
  const ps::Layout layout = ps::make_layout(parts.coordinator.layers, parts.coordinator.policies, options);
  std::vector<ps::HeldSlice> held;
  for (const ps::Slice& slice : layout.slices) held.emplace_back(layout, slice, parts.initial(slice), *parts.optimizer);

  const auto source = parts.source(0);
  const ps::DealerOptions& dealer = parts.coordinator.dealer;
  const ps::Sampler sampler(dealer.train_samples, parts.seed, parts.shuffle);
  std::vector<uint32_t> samples(static_cast<size_t>(dealer.global_batch));
  const int64_t steps_an_epoch = dealer.train_samples / dealer.global_batch;

  double begin_s = 0, begin_cpu_s = 0;
  for (int64_t step = 0; step < timing.warm_steps + timing.steps; ++step) {
    if (step == timing.warm_steps) begin_s = now_s(), begin_cpu_s = cpu_s();
    sampler.indices(step / steps_an_epoch, step % steps_an_epoch * dealer.global_batch, samples);
    const Batch batch{samples, derive_seed(parts.seed, "step", static_cast<uint64_t>(step))};
    std::vector<Tensor> weights, gradients(held.size());
    for (const ps::HeldSlice& slice : held) weights.push_back(slice.values());
    source->forward(batch, weights, 0, held.size());
    source->backward(batch, weights, [&](size_t layer, Tensor gradient) { gradients[layer] = std::move(gradient); });
    weights.clear();
    for (size_t layer = 0; layer < held.size(); ++layer) {
      const std::span<const float> gradient = gradients[layer].span<float>();
      ps::SliceUpdate update;
      update.gradients = {&gradient, 1};
      update.gradient_scale = 1 / static_cast<double>(dealer.global_batch);
      update.schedule_step = step;
      held[layer].apply(*parts.optimizer, update);
    }
  }
  Speed speed;
  speed.samples_per_second = static_cast<double>(timing.steps * dealer.global_batch) / (now_s() - begin_s);
  speed.cpu_s_a_step = (cpu_s() - begin_cpu_s) / static_cast<double>(timing.steps);
  return speed;
}

Result<ps::LoadedConfig> load_or_default(ConfigArguments arguments) {
  if (!arguments.path.empty()) return load(arguments);
  ps::ConfigInput input;
  input.file_name = "the built-in config";
  input.file_text = kDefaultConfig;
  input.overrides = arguments.overrides;
  return ps::load_config(input);
}

int overhead(const Arguments& arguments) {
  auto loaded = load_or_default(arguments.config);
  if (!loaded) return report(loaded.error());
  ps::RunConfig config = loaded->config;
  config.parallel.workers = config.parallel.servers = 1;
  config.parallel.worker_batch.clear();
  config.update = {ps::UpdateRule{}};
  auto parts = parts_of(config);
  if (!parts) return report(parts.error());

  std::cout << "one worker, one server, sync, batch " << config.train.batch_size << ", " << arguments.repetitions
            << " times " << arguments.timing.steps << " steps each in turn\n";
  std::vector<double> plain_cpu, actors_cpu, ratios;
  const auto speeds = alternate(arguments.repetitions, {
      [&] {
        const Speed speed = plain_loop(*parts, arguments.timing);
        plain_cpu.push_back(speed.cpu_s_a_step);
        return speed.samples_per_second;
      },
      [&] {
        const Speed speed = measure_speed(*parts, arguments.timing);
        actors_cpu.push_back(speed.cpu_s_a_step);
        return speed.samples_per_second;
      },
  });
  for (size_t i = 0; i < speeds[0].size(); ++i) ratios.push_back(speeds[0][i] / speeds[1][i]);
  const auto row = [](const std::string& name, const std::vector<double>& speed, const std::vector<double>& cpu) {
    return std::vector<std::string>{name, ps::fixed(median(speed), 0), ps::fixed(median(cpu) * 1e3, 3)};
  };
  std::cout << ps::text_table({{"", "samples/s", "CPU time a step, ms"},
                               row("plain loop", speeds[0], plain_cpu),
                               row("actors", speeds[1], actors_cpu)})
            << verdict("overhead", (median(ratios) - 1) * 100, kMostOverhead, false, " %") << std::endl;
  return kOk;
}

}  // namespace

void add_bench_overhead(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "overhead", "The actor system against a plain loop over the same kernels; without CONFIG an MLP on made-up data");
  auto arguments = std::make_shared<Arguments>();
  add_config_arguments(*command, arguments->config);
  command->get_option("CONFIG")->required(false);
  command->add_option("--steps", arguments->timing.steps, "Steps a measurement")->capture_default_str();
  command->add_option("--repetitions", arguments->repetitions, "Measurements of each")->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = overhead(*arguments); });
}
