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
  struct Measured {
    const ClusterParts* parts;
    int64_t batch;
    std::vector<double> cpu_s_a_sample;
  };
  const int64_t batch = loaded->config.train.batch_size;
  Measured first{&*one, batch, {}}, second{&*two, 2 * batch, {}};
  const auto measure = [&](Measured& m) {
    const Speed speed = measure_speed(*m.parts, a.timing);
    m.cpu_s_a_sample.push_back(speed.cpu_s_a_step / static_cast<double>(m.batch));
    return speed.samples_per_second;
  };
  const auto speeds = alternate(a.repetitions, {[&] { return measure(first); }, [&] { return measure(second); }});
  std::vector<double> ratios;
  for (size_t i = 0; i < speeds[0].size(); ++i) ratios.push_back(speeds[1][i] / speeds[0][i]);
  const auto row = [](const std::string& workers, const std::vector<double>& speed, const Measured& m) {
    return std::vector<std::string>{workers, ps::fixed(median(speed), 0), ps::fixed(median(m.cpu_s_a_sample) * 1e6, 2)};
  };
  std::cout << "batch " << batch << " a worker, " << loaded->config.parallel.servers << " servers\n"
            << ps::text_table({{"workers", "samples/s", "CPU time a sample, us"},
                               row("1", speeds[0], first),
                               row("2", speeds[1], second)})
            << verdict("two workers are as fast as one, times", median(ratios), kLeastSpeedUp, true, "") << std::endl;
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
