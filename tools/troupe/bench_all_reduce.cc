#include <atomic>
#include <barrier>
#include <iostream>
#include <thread>

#include <troupe/ps/metrics/human.h>

#include "bench.h"
#include "bench_device.h"

using namespace troupe;

namespace {

struct Arguments {
  DeviceArguments device;
  int ranks = 0;
};

// Seconds of body(rank, times), which every rank runs on a thread of its own, all at once.
double on_all(int ranks, int64_t times, const std::function<void(int, int64_t)>& body) {
  std::barrier start(ranks + 1);
  std::vector<std::thread> threads;
  std::atomic<bool> failed = false;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      start.arrive_and_wait();
      try {
        body(rank, times);
      } catch (const std::exception&) {
        failed = true;
      }
    });
  start.arrive_and_wait();
  const double begin = now_s();
  for (std::thread& thread : threads) thread.join();
  const double seconds = now_s() - begin;
  if (failed) throw std::runtime_error("a rank failed");
  return seconds;
}

double best(int ranks, const std::function<void(int, int64_t)>& body) {
  int64_t times = 1;
  double seconds = on_all(ranks, times, body);
  while (seconds < 0.05) seconds = on_all(ranks, times *= 2, body);
  for (int round = 0; round < 4; ++round) seconds = std::min(seconds, on_all(ranks, times, body));
  return seconds / static_cast<double>(times);
}

/// Bytes a second that all ranks together read and write, each copying memory of its own.
double host_copy_rate(int ranks) {
  constexpr int64_t kFloats = int64_t{8} << 20;
  std::vector<Tensor> from, to;
  for (int rank = 0; rank < ranks; ++rank) {
    from.push_back(Tensor::zeros({kFloats}));
    to.push_back(Tensor::zeros({kFloats}));
  }
  const double seconds = best(ranks, [&](int rank, int64_t times) {
    const auto i = static_cast<size_t>(rank);
    for (int64_t t = 0; t < times; ++t) std::memcpy(to[i].raw(), from[i].raw(), from[i].bytes());
  });
  return 2.0 * ranks * static_cast<double>(kFloats) * 4 / seconds;
}

class Bench {
 public:
  explicit Bench(const Arguments& arguments) : device_(open_device(arguments.device)) {
    const int found = static_cast<int>(device_.backend->devices().size());
    ranks_ = arguments.ranks ? arguments.ranks : device_.is_cpu() ? 2 : found;
    std::vector<int> devices(static_cast<size_t>(ranks_), 0);
    for (size_t i = 0; i < devices.size() && !device_.is_cpu(); ++i) devices[i] = static_cast<int>(i);
    auto group = device_.backend->make_group(devices);
    if (!group) throw std::runtime_error(group.error().message);
    group_ = std::move(*group);
  }

  void print() {
    // Thread ranks read each input once and write each output once: 2 bytes moved for each byte of each rank.
    const double ceiling = device_.is_cpu() ? host_copy_rate(ranks_) : 0;
    std::cout << "all-reduce, " << ranks_ << " ranks on " << device_.name() << "\n     size        us   algorithm"
              << "       bus  GB/s" << (ceiling > 0 ? cat("   of copies at ", column(ceiling / 1e9), " GB/s") : "")
              << '\n';
    for (int64_t bytes = 4 << 10; bytes <= 64 << 20; bytes *= 4) {
      const double seconds = seconds_for(bytes);
      const double rate = static_cast<double>(bytes) / seconds;
      std::cout << column(ps::human_bytes(bytes)) << ' ' << column(seconds * 1e6) << "   " << column(rate / 1e9) << ' '
                << column(rate * 2 * (ranks_ - 1) / ranks_ / 1e9);
      if (ceiling > 0) std::cout << "        " << column(percent(2 * ranks_ * rate / ceiling));
      std::cout << '\n';
    }
  }

 private:
  double seconds_for(int64_t bytes) {
    std::vector<Tensor> values;
    for (const auto& rank : group_)
      values.push_back(rank->stream() ? rank->stream()->empty({bytes / 4}) : Tensor::zeros({bytes / 4}));
    return best(ranks_, [&](int rank, int64_t times) {
      const auto i = static_cast<size_t>(rank);
      for (int64_t t = 0; t < times; ++t)
        if (const Status status = group_[i]->all_reduce(values[i], values[i]); !status)
          throw std::runtime_error(status.error().message);
    });
  }

  BenchDevice device_;
  int ranks_ = 0;
  std::vector<std::unique_ptr<Communicator>> group_;
};

}  // namespace

void add_bench_all_reduce(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand("all-reduce", "Sums over all ranks: thread ranks on the CPU, NCCL on GPUs");
  auto arguments = std::make_shared<Arguments>();
  add_device_arguments(*command, arguments->device);
  command->add_option("--ranks", arguments->ranks, "0: two on the CPU, one on each GPU")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = run_bench([&] { Bench(*arguments).print(); }); });
}
