#include <iostream>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/human.h>

#include "bench.h"

using namespace troupe;

namespace {

constexpr size_t kWorkers = 4;
constexpr double kLeastAsync = 85;  // percent

struct Arguments {
  double step_ms = 10;
  double slow_factor = 4;
  int64_t steps = 150;
  int repetitions = 3;
};

Speed speed_under(ps::Policy policy, double slow_factor, const Arguments& a) {
  const auto step_time = std::chrono::microseconds(static_cast<int64_t>(a.step_ms * 1000));
  ClusterParts parts = synthetic_parts(kWorkers, 2, policy, synthetic_layers(3, 64 * 1024), step_time);
  parts.slow_down = [slow_factor](ps::WorkerId worker) {
    return SlowDown{worker == kWorkers - 1 ? slow_factor : 1, {}};
  };
  return measure_speed(std::move(parts), {a.steps / 10, a.steps - a.steps / 10});
}

int policies(const Arguments& a) {
  const std::vector<ps::Policy> all = {{ps::Mode::sync}, {ps::Mode::all_reduce}, {ps::Mode::ssp, 3}, {ps::Mode::async}};
  std::vector<std::function<double()>> measure;
  std::vector<double> waiting(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    measure.push_back([&, i] { return speed_under(all[i], 1, a).samples_per_second; });
    measure.push_back([&, i] {
      const Speed speed = speed_under(all[i], a.slow_factor, a);
      waiting[i] = speed.wait_share;
      return speed.samples_per_second;
    });
  }
  const auto speeds = alternate(a.repetitions, measure);

  std::cout << "four workers whose steps are " << ps::fixed(a.step_ms, 0) << " ms of sleep, so that cores are not what "
            << "they wait for; one of them " << ps::fixed(a.slow_factor, 0) << " times slower\n";
  std::vector<std::vector<std::string>> table = {
      {"policy", "steps/s, all alike", "steps/s, one slow", "of the possible", "waiting"}};
  double async_percent = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const double alike = median(speeds[2 * i]), slowed = median(speeds[2 * i + 1]);
    // What the other three do, and the slow one at its own pace.
    const double possible = alike / kWorkers * (kWorkers - 1 + 1 / a.slow_factor);
    const double percent = slowed / possible * 100;
    if (all[i].mode == ps::Mode::async) async_percent = percent;
    table.push_back({ps::describe(all[i]), ps::fixed(alike, 0), ps::fixed(slowed, 0), ps::fixed(percent, 0) + " %",
                     ps::human_share(waiting[i])});
  }
  std::cout << ps::text_table(table)
            << verdict("async: share of the three others' speed and the slow one's own", async_percent, kLeastAsync,
                       true, " %")
            << std::endl;
  return kOk;
}

}  // namespace

void add_bench_policies(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand("policies", "What one slow worker of four costs under each policy");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--step-ms", arguments->step_ms, "What a step takes")->capture_default_str();
  command->add_option("--slow-factor", arguments->slow_factor, "How much longer the slow one's take")
      ->capture_default_str();
  command->add_option("--steps", arguments->steps, "Steps of all together")->capture_default_str();
  command->add_option("--repetitions", arguments->repetitions, "Measurements of each")->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = policies(*arguments); });
}
