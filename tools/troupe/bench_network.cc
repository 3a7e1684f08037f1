#include <unistd.h>

#include <iostream>
#include <map>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/human.h>

#include "bench.h"
#include "bench_peer.h"

using namespace troupe;

namespace {

struct Arguments {
  std::vector<std::string> via = {"tcp", "ipc", "shm"};
  std::vector<std::string> operations = {"push", "pull", "push-pull"};
  std::vector<int64_t> sizes = {4 << 10, 64 << 10, 1 << 20, 16 << 20};
  int repetitions = 3;
  double seconds = 0.4;
  bool plain = false;
};

BenchPeer::Options peer_options(const std::string& via, size_t parcels, int64_t bytes) {
  BenchPeer::Options options;
  options.shared_memory = via == "shm";
  if (via == "ipc") options.listen = cat("ipc:///tmp/troupe-bench-", ::getpid(), '-', parcels);
  options.parcels = parcels;
  options.elements = bytes / 4;
  return options;
}

// So that all memory has been touched once: the system gives it page by page, which takes longer than what is measured.
constexpr int64_t kWarmRounds = 4;

// Of as many as take about `seconds`.
double seconds_each(BenchPeer& peer, BenchPeer::Operation operation, size_t window, double seconds) {
  peer.run(operation, kWarmRounds * static_cast<int64_t>(window));
  int64_t count = 8;
  double took = 0;
  while ((took = peer.run(operation, count)) < seconds / 4 && count < 1 << 20) count *= 2;
  count = std::max(count, static_cast<int64_t>(seconds / took * static_cast<double>(count)));
  return peer.run(operation, count) / static_cast<double>(count);
}

const std::map<std::string, BenchPeer::Operation> kOperations = {{"push", BenchPeer::Operation::push},
                                                                 {"pull", BenchPeer::Operation::pull},
                                                                 {"push-pull", BenchPeer::Operation::push_pull}};

int push_pull(const Arguments& a) {
  std::vector<std::vector<std::string>> table = {{"size", "operation", "via", "alone", "in flight", "MB/s"}};
  for (const int64_t bytes : a.sizes)
    for (const std::string& via : a.via) {
      const size_t window = bytes >= 16 << 20 ? 4 : 16;
      BenchPeer one(peer_options(via, 1, bytes)), many(peer_options(via, window, bytes));
      for (const std::string& name : a.operations) {
        std::vector<double> alone, rate;
        for (int i = 0; i < a.repetitions; ++i) {
          alone.push_back(seconds_each(one, kOperations.at(name), 1, a.seconds) * 1e6);
          const double each_s = seconds_each(many, kOperations.at(name), window, a.seconds);
          rate.push_back(static_cast<double>(bytes) / each_s / 1e6);
        }
        table.push_back({a.plain ? cat(bytes) : ps::human_bytes(bytes), name, via, ps::fixed(median(alone), 1) + " us",
                         cat(window), ps::fixed(median(rate), 0)});
      }
    }
  if (a.plain) {
    for (size_t row = 1; row < table.size(); ++row) {
      for (const std::string& cell : table[row]) std::cout << cell << ' ';
      std::cout << '\n';
    }
    return kOk;
  }
  std::cout << "a worker actor here, a server actor in another process (async, SGD); medians of " << a.repetitions
            << "; MB/s one way\n"
            << ps::text_table(table) << std::flush;
  return kOk;
}

int latency(const Arguments& a) {
  constexpr int64_t kBytes = 4 << 10;
  std::vector<std::vector<std::string>> table = {{"via", "push of 4 KB, acknowledged", "pull of 4 KB"}};
  for (const std::string& via : a.via) {
    BenchPeer peer(peer_options(via, 1, kBytes));
    std::vector<double> push, pull;
    for (int i = 0; i < a.repetitions; ++i) {
      push.push_back(seconds_each(peer, BenchPeer::Operation::push, 1, a.seconds) * 1e6);
      pull.push_back(seconds_each(peer, BenchPeer::Operation::pull, 1, a.seconds) * 1e6);
    }
    table.push_back({via, ps::fixed(median(push), 1) + " us", ps::fixed(median(pull), 1) + " us"});
  }
  std::cout << "round trips between a worker actor here and a server actor in another process; medians of "
            << a.repetitions << '\n'
            << ps::text_table(table) << std::flush;
  return kOk;
}

void add_arguments(CLI::App& command, Arguments& arguments) {
  command.add_option("--via", arguments.via, "tcp, ipc (sockets), shm (shared memory)")
      ->delimiter(',')
      ->check(CLI::IsMember({"tcp", "ipc", "shm"}));
  command.add_option("--seconds", arguments.seconds, "Length of a measurement")->capture_default_str();
  command.add_option("--repetitions", arguments.repetitions, "Measurements of each")->capture_default_str();
}

}  // namespace

void add_bench_network(CLI::App& bench, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* both = bench.add_subcommand("push-pull", "Pushes and pulls between two processes, by size and way");
  add_arguments(*both, *arguments);
  both->callback([arguments, &exit_code] { exit_code = push_pull(*arguments); });
  both->add_option("--operations", arguments->operations, "push, pull, push-pull")
      ->delimiter(',')
      ->check(CLI::IsMember({"push", "pull", "push-pull"}));
  both->add_option("--sizes", arguments->sizes, "Bytes of a message, multiples of 4")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{4}, int64_t{64} << 20));
  both->add_flag("--plain", arguments->plain, "Lines of words, for programs: tools/bench/network");
  CLI::App* small = bench.add_subcommand("latency", "Round trips of small messages between two processes");
  add_arguments(*small, *arguments);
  small->callback([arguments, &exit_code] { exit_code = latency(*arguments); });

  auto options = std::make_shared<BenchPeer::Options>();
  CLI::App* peer = bench.add_subcommand("peer", "")->group("");  // the other process of these two
  peer->add_option("--listen", options->listen);
  peer->add_option("--parcels", options->parcels);
  peer->add_option("--elements", options->elements);
  peer->add_flag("--shared-memory,!--sockets", options->shared_memory);
  peer->callback([options, &exit_code] { exit_code = serve_bench(*options); });
}
