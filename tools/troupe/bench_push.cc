#include <iostream>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/human.h>

#include "bench.h"
#include "bench_memory.h"
#include "bench_server.h"

using namespace troupe;

namespace {

constexpr double kLeastShare = 60;  // percent of what one thread reads and adds
constexpr int64_t kKiB = 1024, kMiB = 1024 * 1024;
constexpr int64_t kTargetBytes = 16 * kMiB;
constexpr int64_t kBeyondCache = 256 * kMiB;

struct Arguments {
  int repetitions = 5;
  double seconds = 0.5;
};

/// A step's new parameters are written beside the old ones, which workers may still hold: a push of a lone worker pays
/// for all of that by itself, where several workers share it.
///
/// Every worker keeps one push of every parcel under way, as real ones do. Bytes of gradients that were aggregated and
/// applied, a second.
double push_rate(size_t workers, size_t parcels, int64_t bytes, double seconds) {
  BenchServer server(workers, parcels, bytes / 4);
  const auto push_all = [&](ps::Step step) {
    for (ps::WorkerId worker = 0; worker < workers; ++worker)
      for (ps::ParcelId parcel = 0; parcel < parcels; ++parcel) server.push(worker, parcel, step);
  };
  const auto wait_all = [&] {
    for (size_t i = 0; i < workers * parcels; ++i) server.wait();
  };
  push_all(0), wait_all();
  push_all(1), wait_all();
  ps::Step step = 2;
  const double begin_s = now_s();
  if (workers == 1) {
    // A parcel's next push leaves as soon as it may: the others are still under way.
    push_all(step);
    int64_t answers = 0;
    while (now_s() - begin_s < seconds) {
      const auto answer = server.wait();
      server.push(0, answer.parcel, answer.step + 1);
      ++answers;
    }
    const double end_s = now_s();
    wait_all();
    return static_cast<double>(answers * bytes) / (end_s - begin_s);
  }
  for (; now_s() - begin_s < seconds; ++step) push_all(step), wait_all();
  return static_cast<double>((step - 2) * bytes) * static_cast<double>(workers * parcels) / (now_s() - begin_s);
}

std::string gigabytes(double rate) { return ps::fixed(rate / 1e9, 2); }

int push(const Arguments& a) {
  struct Case {
    size_t workers, parcels;
    int64_t bytes;
  };
  const std::vector<Case> cases = {{1, 1, 64 * kKiB}, {1, 16, 64 * kKiB}, {1, 1, kMiB},         {1, 16, kMiB},
                                   {1, 1, 4 * kMiB},  {1, 4, 4 * kMiB},   {1, 1, kTargetBytes}, {1, 4, kTargetBytes},
                                   {2, 1, kTargetBytes}, {4, 1, kTargetBytes}};
  std::vector<std::function<double()>> measure = {[&] { return read_and_add(kBeyondCache, a.seconds); },
                                                  [&] { return read_and_add(kTargetBytes, a.seconds); }};
  for (const Case& c : cases)
    measure.push_back([c, &a] { return push_rate(c.workers, c.parcels, c.bytes, a.seconds); });
  const auto rates = alternate(a.repetitions, measure);

  std::cout << "one server, sync, SGD; medians of " << a.repetitions << ". One thread reads and adds "
            << gigabytes(median(rates[0])) << " GB/s of 256 MB, " << gigabytes(median(rates[1])) << " GB/s of 16 MB\n";
  std::vector<std::vector<std::string>> table = {{"push", "workers", "in flight", "GB/s", "us each", "of reading"}};
  double alone = 0, aggregated = 0;  // percent
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const double rate = median(rates[i + 2]);
    std::vector<double> shares;  // round by round: both are slow when the machine is
    for (size_t k = 0; k < rates[0].size(); ++k) shares.push_back(rates[i + 2][k] / rates[0][k]);
    const double percent = median(shares) * 100;
    if (c.bytes == kTargetBytes && c.workers == 1 && c.parcels == 1) alone = percent;
    if (c.bytes == kTargetBytes && c.workers == 2) aggregated = percent;
    table.push_back({ps::human_bytes(c.bytes), cat(c.workers), cat(c.workers * c.parcels), gigabytes(rate),
                     ps::fixed(static_cast<double>(c.bytes) / rate * 1e6, 1), ps::fixed(percent, 0) + " %"});
  }
  std::cout << ps::text_table(table) << "16 MB, share of reading and adding:\n"
            << verdict("  of a lone worker", alone, kLeastShare, true, " %") << '\n'
            << verdict("  of each of two workers, aggregated", aggregated, kLeastShare, true, " %") << std::endl;
  return kOk;
}

}  // namespace

void add_bench_push(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "push", "Gradients that a server actor aggregates and applies (SGD), against what one thread reads and adds");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--seconds", arguments->seconds, "Length of a measurement")->capture_default_str();
  command->add_option("--repetitions", arguments->repetitions, "Measurements of each")->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = push(*arguments); });
}
