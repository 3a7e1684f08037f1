#include <iostream>

#include <troupe/ps/metrics/trace_summary.h>

#include "commands.h"

using namespace troupe;

namespace {

int summarize(const std::string& run, int64_t gaps) {
  const auto content = ps::read_run_traces(run);
  if (!content) return report(content.error());
  std::cout << ps::trace_text(ps::summarize_trace(*content, static_cast<size_t>(gaps)), content->lost) << std::flush;
  return kOk;
}

}  // namespace

void add_trace(CLI::App& app, int& exit_code) {
  struct Arguments {
    std::string run;
    int64_t gaps = 3;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("trace", "Look at the trace that a run left (metrics.trace = true)");
  command->require_subcommand(1);
  command->footer(R"(
Examples:
  troupe train configs/sync.toml --set metrics.trace=true --set metrics.trace_last_step=100
  troupe trace summary runs/sync-20261130-112906

The files RUN/trace*.json open in chrome://tracing and ui.perfetto.dev.)");
  CLI::App* sub = command->add_subcommand("summary", "Busy and idle shares of every track, and its longest gaps");
  sub->add_option("RUN", arguments->run, "A run's folder")->required();
  sub->add_option("--gaps", arguments->gaps, "Gaps a track")->check(CLI::Range(0, 1000))->capture_default_str();
  sub->callback([arguments, &exit_code] { exit_code = summarize(arguments->run, arguments->gaps); });
}
