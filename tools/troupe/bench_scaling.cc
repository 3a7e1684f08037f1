#include <iostream>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/config/load.h>
#include <troupe/ps/metrics/human.h>

#include "bench.h"

using namespace troupe;

namespace {

constexpr double kLeastSpeedUp = 1.7;

struct Arguments {
  ConfigArguments config;
  Timing timing{20, 150};
  int repetitions = 5;
};

/// The config with `workers` workers, each with the batch that is the whole batch of one.
Result<ClusterParts> parts_with(ps::RunConfig config, int64_t workers) {
  config.parallel.workers = workers;
  config.parallel.worker_batch.clear();
  config.train.batch_size *= workers;
  return parts_of(config);
}

int scaling(const Arguments& a) {
  const auto loaded = load(a.config);
  if (!loaded) return report(loaded.error());
  const auto one = parts_with(loaded->config, 1), two = parts_with(loaded->config, 2);
  if (!one) return report(one.error());
  if (!two) return report(two.error());
  const auto speeds = alternate(a.repetitions, {
      [&] { return measure_speed(*one, a.timing).samples_per_second; },
      [&] { return measure_speed(*two, a.timing).samples_per_second; },
  });
  std::vector<double> ratios;
  for (size_t i = 0; i < speeds[0].size(); ++i) ratios.push_back(speeds[1][i] / speeds[0][i]);
  std::cout << "batch " << loaded->config.train.batch_size << " a worker, " << loaded->config.parallel.servers
            << " servers\n"
            << ps::text_table({{"workers", "samples/s"},
                               {"1", ps::fixed(median(speeds[0]), 0)},
                               {"2", ps::fixed(median(speeds[1]), 0)}})
            << verdict("two workers do", median(ratios), kLeastSpeedUp, true, " times what one does") << std::endl;
  return kOk;
}

}  // namespace

void add_bench_scaling(CLI::App& bench, int& exit_code) {
  CLI::App* command =
      bench.add_subcommand("scaling", "Two workers against one, each with the batch of the config for itself");
  auto arguments = std::make_shared<Arguments>();
  add_config_arguments(*command, arguments->config);
  command->add_option("--steps", arguments->timing.steps, "Steps a measurement")->capture_default_str();
  command->add_option("--repetitions", arguments->repetitions, "Measurements of each")->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = scaling(*arguments); });
}
