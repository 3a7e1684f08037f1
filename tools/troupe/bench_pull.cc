#include <barrier>
#include <iostream>
#include <set>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/human.h>

#include "bench.h"
#include "bench_memory.h"
#include "bench_server.h"

using namespace troupe;

namespace {

constexpr int64_t kMiB = 1024 * 1024;
constexpr int64_t kWeightsBytes = 64 * kMiB;

struct Arguments {
  double seconds = 0.5;
};

/// Seconds from asking for `bytes` of weights until they are there.
double pull_time(int64_t bytes, double seconds) {
  BenchServer server(1, 1, bytes / 4);
  int64_t pulls = 0;
  const double begin_s = now_s();
  for (; now_s() - begin_s < seconds; ++pulls) {
    server.pull(0, 0, 0);
    server.wait();
  }
  return (now_s() - begin_s) / static_cast<double>(pulls);
}

/// What a process holds while all workers of a run have the weights of the same step in hand.
struct Held {
  int64_t resident = 0;  ///< bytes more than before the run
  size_t copies = 0;     ///< different memory that the workers' weights lie in
};

Held weights_held(size_t workers) {
  const std::vector<LayerSpec> layers = synthetic_layers(1, kWeightsBytes / 4);
  ClusterParts parts = synthetic_parts(workers, 1, {ps::Mode::sync}, layers, std::chrono::microseconds(0));
  const auto gradients = synthetic_gradients(layers);
  const int64_t before = resident_bytes();

  constexpr int kAtStep = 5;
  Held held;
  std::mutex mutex;
  std::set<const void*> seen;
  std::barrier everybody(static_cast<std::ptrdiff_t>(workers), [&]() noexcept {
    held.resident = resident_bytes() - before;
    held.copies = seen.size();
  });
  parts.source = [&](ps::WorkerId) {
    SyntheticSource::Options options;
    options.weights_seen = [&, step = 0](std::span<const Tensor> weights) mutable {
      if (step++ != kAtStep) return;
      {
        std::lock_guard lock(mutex);
        seen.insert(weights[0].raw());
      }
      everybody.arrive_and_wait();
    };
    return std::make_unique<SyntheticSource>(layers, gradients, options);
  };
  measure_speed(std::move(parts), {2, 8});
  return held;
}

int pull(const Arguments& a) {
  std::cout << "a pull, asked for and answered, one at a time:\n";
  std::vector<std::vector<std::string>> table = {{"weights", "us", "copying them takes, us"}};
  for (const int64_t bytes : {64 * int64_t{1024}, kMiB, 16 * kMiB, 64 * kMiB}) {
    const double copying = static_cast<double>(bytes) / copy(bytes, a.seconds / 4);
    table.push_back({ps::human_bytes(bytes), ps::fixed(pull_time(bytes, a.seconds) * 1e6, 1),
                     ps::fixed(copying * 1e6, 1)});
  }
  std::cout << ps::text_table(table);

  set_buffer_cache_limit(0);
  std::cout << "\nresident memory while all workers hold the weights of a step, " << ps::human_bytes(kWeightsBytes)
            << "; the server has the step before as well:\n";
  std::vector<std::vector<std::string>> memory = {{"workers", "resident", "copies of the weights they hold"}};
  size_t most_copies = 0;
  for (const size_t workers : {1, 4}) {
    const Held held = weights_held(workers);
    most_copies = std::max(most_copies, held.copies);
    memory.push_back({cat(workers), ps::human_bytes(held.resident), cat(held.copies)});
  }
  std::cout << ps::text_table(memory)
            << verdict("copies of the weights", static_cast<double>(most_copies), 1, false, "") << std::endl;
  return kOk;
}

}  // namespace

void add_bench_pull(CLI::App& bench, int& exit_code) {
  CLI::App* command =
      bench.add_subcommand("pull", "What a pull costs inside a process, and how many copies of the weights it makes");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--seconds", arguments->seconds, "Length of a measurement")->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = pull(*arguments); });
}
