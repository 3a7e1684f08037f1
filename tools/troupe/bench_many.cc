#include <iostream>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/human.h>
#include <troupe/ps/transport/memory_transport.h>
#include <troupe/ps/transport/metered_transport.h>

#include "bench.h"

using namespace troupe;

namespace {

// Beside what flow control bounds: memberships, work and the end.
constexpr int64_t kFewMore = 8;

struct Arguments {
  size_t workers = 1000;
  uint32_t servers = 16;
  int64_t steps = 100;
};

/// A few queues for all workers: a worker's tasks stay in order because they go to one of them.
std::function<std::shared_ptr<Executor>(const ps::Endpoint&, const char*)> shared_queues(size_t count) {
  auto queues = std::make_shared<std::vector<std::shared_ptr<Executor>>>();
  for (size_t i = 0; i < count; ++i) queues->push_back(make_cpu_queue(cat("compute", i)));
  return [queues](const ps::Endpoint& who, const char*) { return (*queues)[who.index % queues->size()]; };
}

int many(const Arguments& a) {
  // One layer a server: every worker talks to all servers in every step.
  const auto layers = synthetic_layers(a.servers, 1024);
  ClusterParts parts =
      synthetic_parts(a.workers, a.servers, {ps::Mode::async}, layers, std::chrono::microseconds(0));
  parts.executor = shared_queues(2);
  auto transport = std::make_shared<ps::MeteredTransport>(std::make_shared<ps::MemoryTransport>());
  parts.transport = transport;

  const Timing timing{std::min<int64_t>(5, a.steps / 2), a.steps - std::min<int64_t>(5, a.steps / 2)};
  const double begin_s = now_s();
  const Speed speed = measure_speed(std::move(parts), timing);
  const double seconds = now_s() - begin_s;

  const auto parcels = static_cast<int64_t>(speed.result.layout->parcels.size());
  const auto workers = static_cast<int64_t>(a.workers);
  const int64_t server_parcels = (parcels + a.servers - 1) / a.servers;
  int64_t pieces = 0;
  for (const ps::WorkerReport& worker : speed.result.workers) pieces += worker.pieces;

  struct Row {
    ps::Role role;
    int64_t credit;
    std::string why;
  };
  // A worker has one push and one pull of a parcel unanswered, and two steps not confirmed.
  const std::vector<Row> rows = {
      {ps::Role::server, 2 * workers * server_parcels + kFewMore, "a push and a pull a parcel and worker"},
      {ps::Role::worker, 2 * parcels + kFewMore, "an answer to each"},
      {ps::Role::coordinator, 4 * workers + 2 * a.servers + kFewMore, "two steps and two requests a worker"}};
  std::vector<std::vector<std::string>> table = {{"mailbox of a", "most messages", "credit", "which is"}};
  int64_t messages = 0;
  bool within = true;
  for (const Row& row : rows) {
    const int64_t most = transport->most_waiting(row.role);
    messages += transport->delivered(row.role);
    within = within && most <= row.credit;
    table.push_back({name_of(row.role), ps::human_count(most), ps::human_count(row.credit), row.why});
  }
  std::cout << a.workers << " workers, " << a.servers << " servers, async: " << ps::human_count(pieces)
            << " worker steps in " << ps::human_duration(seconds) << ", "
            << ps::human_count(static_cast<int64_t>(speed.samples_per_second)) << " a second, "
            << ps::human_count(static_cast<int64_t>(static_cast<double>(messages) / seconds)) << " messages a second\n"
            << ps::text_table(table) << (within ? "no mailbox grew past its credit" : "a mailbox grew past its credit")
            << std::endl;
  return within ? kOk : kRunFailed;
}

}  // namespace

void add_bench_many(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "many", "Many worker actors with made-up gradients on two threads: speed, and how full mailboxes get");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--workers", arguments->workers, "Worker actors")->capture_default_str();
  command->add_option("--servers", arguments->servers, "Server actors")->capture_default_str();
  command->add_option("--steps", arguments->steps, "Steps of each worker")->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = many(*arguments); });
}
