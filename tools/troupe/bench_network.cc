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
  int64_t slice_bytes = ps::LayoutOptions{}.slice_bytes;
  bool plain = false;
  int64_t rows = 0;  ///< > 0: operations on so many random rows of `width` floats, of `table` rows in all
  int64_t width = 64;
  int64_t table = 1'000'000;
};

BenchPeer::Options peer_options(const Arguments& a, const std::string& via, size_t layers, int64_t bytes) {
  BenchPeer::Options options;
  options.shared_memory = via == "shm";
  if (via == "ipc") options.listen = cat("ipc:///tmp/troupe-bench-", ::getpid(), '-', layers);
  options.layers = layers;
  options.elements = bytes / 4;
  options.slice_bytes = a.slice_bytes;
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

void print_plain(const std::vector<std::vector<std::string>>& table) {
  for (size_t row = 1; row < table.size(); ++row) {
    for (const std::string& cell : table[row]) std::cout << cell << ' ';
    std::cout << '\n';
  }
}

// As many tables as there are operations under way, since each has one at a time.
BenchPeer::Options rows_options(const Arguments& a, const std::string& via, size_t tables) {
  BenchPeer::Options options = peer_options(a, via, tables, 0);
  options.width = a.width;
  options.rows = a.rows;
  options.elements = std::max(a.rows, a.table / static_cast<int64_t>(tables)) * a.width;
  return options;
}

int push_pull_rows(const Arguments& a) {
  constexpr size_t kWindow = 4;
  const int64_t bytes = a.rows * a.width * 4;
  std::vector<std::vector<std::string>> table = {
      {"rows", "operation", "via", "alone", "in flight", "MB/s", "M rows/s"}};
  for (const std::string& via : a.via) {
    BenchPeer one(rows_options(a, via, 1)), many(rows_options(a, via, kWindow));
    for (const std::string& name : a.operations) {
      std::vector<double> alone, rate;
      for (int i = 0; i < a.repetitions; ++i) {
        alone.push_back(seconds_each(one, kOperations.at(name), 1, a.seconds) * 1e6);
        rate.push_back(1 / seconds_each(many, kOperations.at(name), kWindow, a.seconds));
      }
      const double each = median(rate);
      table.push_back({cat(a.rows, a.plain ? " " : " of ", a.width), name, via, ps::fixed(median(alone), 1) + " us",
                       cat(kWindow), ps::fixed(each * static_cast<double>(bytes) / 1e6, 0),
                       ps::fixed(each * static_cast<double>(a.rows) / 1e6, 3)});
    }
  }
  if (a.plain) return print_plain(table), kOk;
  std::cout << "random rows of " << a.table << ", pushed by a worker actor here to a server actor in another process "
            << "(async, SGD), and pulled; medians of " << a.repetitions << "; MB/s one way\n"
            << ps::text_table(table) << std::flush;
  return kOk;
}

int push_pull(const Arguments& a) {
  if (a.rows > 0) return push_pull_rows(a);
  std::vector<std::vector<std::string>> table = {{"size", "operation", "via", "alone", "in flight", "MB/s"}};
  for (const int64_t bytes : a.sizes)
    for (const std::string& via : a.via) {
      const size_t window = bytes >= 16 << 20 ? 4 : 16;
      BenchPeer one(peer_options(a, via, 1, bytes)), many(peer_options(a, via, window, bytes));
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
  if (a.plain) return print_plain(table), kOk;
  std::cout << "a worker actor here, a server actor in another process (async, SGD); medians of " << a.repetitions
            << "; MB/s one way\n"
            << ps::text_table(table) << std::flush;
  return kOk;
}

int latency(const Arguments& a) {
  constexpr int64_t kBytes = 4 << 10;
  std::vector<std::vector<std::string>> table = {{"via", "push of 4 KB, acknowledged", "pull of 4 KB"}};
  for (const std::string& via : a.via) {
    BenchPeer peer(peer_options(a, via, 1, kBytes));
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
  both->add_option("--sizes", arguments->sizes, "Bytes of a layer, multiples of 4")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{4}, int64_t{64} << 20));
  both->add_option("--slice-bytes", arguments->slice_bytes, "What larger layers are cut into, as in servers.slice_bytes")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{64}, int64_t{64} << 20));
  both->add_option("--rows", arguments->rows, "Random rows of a table instead, so many an operation")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  both->add_option("--width", arguments->width, "Floats a row")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16));
  both->add_option("--table", arguments->table, "Rows there are to choose from")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  both->add_flag("--plain", arguments->plain, "Lines of words, for programs: tools/bench/network");
  CLI::App* small = bench.add_subcommand("latency", "Round trips of small messages between two processes");
  add_arguments(*small, *arguments);
  small->callback([arguments, &exit_code] { exit_code = latency(*arguments); });

  auto options = std::make_shared<BenchPeer::Options>();
  CLI::App* peer = bench.add_subcommand("peer", "")->group("");  // the other process of these two
  peer->add_option("--listen", options->listen);
  peer->add_option("--layers", options->layers);
  peer->add_option("--slice-bytes", options->slice_bytes);
  peer->add_option("--elements", options->elements);
  peer->add_option("--width", options->width);
  peer->add_flag("--shared-memory,!--sockets", options->shared_memory);
  peer->callback([options, &exit_code] { exit_code = serve_bench(*options); });
}
