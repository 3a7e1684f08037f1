#include <fstream>
#include <iostream>
#include <optional>

#include <troupe/ps/config/load.h>
#include <troupe/ps/metrics/human.h>
#include <troupe/ps/metrics/trace_summary.h>
#include <troupe/ps/pipeline/configured.h>
#include <troupe/ps/pipeline/draw_schedule.h>
#include <troupe/ps/pipeline/measured.h>

#include "commands.h"

using namespace troupe;

namespace {

/// What the run's stages did in one step, beside what their schedule says they should have; none for a run without
/// stages, and where steps have no end of their own (asynchronous schedules).
struct StepOfStages {
  ps::Schedule schedule;
  ps::Timing measured, predicted;
  ps::Step step = 0;
};

Result<std::optional<StepOfStages>> step_of_stages(const std::string& run, const ps::TraceContent& content,
                                                   int64_t replica, ps::Step step) {
  const auto loaded = ps::load_config_file(run + "/config.resolved.toml", {});
  if (!loaded) return tl::unexpected<Error>(loaded.error());
  const ps::ParallelSection& parallel = loaded->config.parallel;
  if (parallel.stages == 1 || parallel.asynchronous()) return std::nullopt;
  auto schedule = ps::running_schedule(parallel);
  if (!schedule) return tl::unexpected<Error>(schedule.error());
  const auto which = static_cast<uint32_t>(replica);
  if (step < 0) step = ps::typical_step(content, *schedule, which);
  auto measured = ps::measured_timing(content, *schedule, which, step);
  if (!measured) return tl::unexpected<Error>(measured.error());
  ps::Timing predicted =
      ps::simulate(*schedule, ps::measured_times(*schedule, *measured),
                   {parallel.strict_schedule ? ps::StageRule::strict : ps::StageRule::work_conserving, true});
  return StepOfStages{std::move(*schedule), std::move(*measured), std::move(predicted), step};
}

int summarize(const std::string& run, int64_t gaps) {
  const auto content = ps::read_run_traces(run);
  if (!content) return report(content.error());
  std::cout << ps::trace_text(ps::summarize_trace(*content, static_cast<size_t>(gaps)), content->lost) << std::flush;
  const auto stages = step_of_stages(run, *content, 0, -1);
  if (!stages) return report(stages.error());
  if (*stages)
    std::cout << "\nstep " << (*stages)->step << " of replica 0: "
              << ps::compare_text((*stages)->schedule, (*stages)->measured, (*stages)->predicted) << std::flush;
  return kOk;
}

int draw(const std::string& run, int64_t replica, int64_t step, const std::string& svg) {
  const auto content = ps::read_run_traces(run);
  if (!content) return report(content.error());
  const auto stages = step_of_stages(run, *content, replica, step);
  if (!stages) return report(stages.error());
  if (!*stages)
    return report({ErrorKind::invalid, run + " has no step of stages to draw: parallel.stages is 1, or its schedule is "
                                             "asynchronous (open the trace itself in a viewer)"});
  const auto& [schedule, measured, predicted, drawn] = **stages;
  const auto title = [](const char* what, const ps::Timing& timing) {
    return cat(what, ": ", ps::fixed(1e3 * timing.cost, 2), " ms");
  };
  const ps::DrawnTiming both[] = {
      {title(cat(schedule.name, ", step ", drawn, " as measured").c_str(), measured), &measured},
      {title("what the schedule makes of these times", predicted), &predicted}};
  std::ofstream file(svg);
  file << ps::draw_svg(schedule, both);
  file.close();
  if (!file)
    return report({ErrorKind::failed, svg + ": cannot write the picture; name a file in a folder that exists"});
  std::cout << svg << " written: step " << (*stages)->step << '\n';
  return kOk;
}

}  // namespace

void add_trace(CLI::App& app, int& exit_code) {
  struct Arguments {
    std::string run;
    int64_t gaps = 3, replica = 0, step = -1;
    std::string svg = "trace.svg";
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("trace", "Look at the trace that a run left (metrics.trace = true)");
  command->require_subcommand(1);
  command->footer(R"(
Examples:
  troupe train configs/sync.toml --set metrics.trace=true --set metrics.trace_last_step=100
  troupe trace summary runs/sync-20261130-112906
  troupe trace draw runs/pipeline-20261130-112906 --svg step.svg

The files RUN/trace*.json open in chrome://tracing and ui.perfetto.dev.)");
  CLI::App* sub = command->add_subcommand("summary", "Busy and idle shares of every track, and its longest gaps");
  sub->add_option("RUN", arguments->run, "A run's folder")->required();
  sub->add_option("--gaps", arguments->gaps, "Gaps a track")->check(CLI::Range(0, 1000))->capture_default_str();
  sub->callback([arguments, &exit_code] { exit_code = summarize(arguments->run, arguments->gaps); });
  CLI::App* picture = command->add_subcommand(
      "draw", "A picture of what the stages of a pipeline did in a step, above what their schedule says");
  picture->add_option("RUN", arguments->run, "A run's folder")->required();
  picture->add_option("--svg", arguments->svg, "The file to write")->capture_default_str();
  picture->add_option("--step", arguments->step, "Which step; -1: one in the middle")->capture_default_str();
  picture->add_option("--replica", arguments->replica, "Of which replica")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  picture->callback([arguments, &exit_code] {
    exit_code = draw(arguments->run, arguments->replica, arguments->step, arguments->svg);
  });
}
