#include "bench.h"

namespace {

constexpr const char* kFooter = R"(
Each prints what it measured beside what is expected of it. Others' work on the same cores shows in absolute
figures, less in ratios. tools/bench/peers compares with other systems.
)";

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measure what parts of the system cost");
  bench->require_subcommand(1);
  bench->footer(kFooter);
  add_bench_overhead(*bench, exit_code);
  add_bench_push(*bench, exit_code);
  add_bench_pull(*bench, exit_code);
  add_bench_many(*bench, exit_code);
  add_bench_policies(*bench, exit_code);
  add_bench_scaling(*bench, exit_code);
  add_bench_network(*bench, exit_code);
  add_bench_gemm(*bench, exit_code);
  add_bench_ops(*bench, exit_code);
  add_bench_h2d(*bench, exit_code);
  add_bench_all_reduce(*bench, exit_code);
  add_bench_overlap(*bench, exit_code);
  add_bench_step(*bench, exit_code);
}
