#include <iostream>

#include <troupe/ps/config/resolved.h>
#include <troupe/ps/pipeline/configured.h>

#include "commands.h"

using namespace troupe;

namespace {

int check(const ConfigArguments& arguments) {
  const auto loaded = load(arguments);
  if (!loaded) return report(loaded.error());
  if (const ps::ParallelSection& parallel = loaded->config.parallel; parallel.stages > 1)
    if (const auto schedule = ps::running_schedule(parallel); !schedule) return report(schedule.error());
  std::cout << ps::resolved_toml(loaded->config, &loaded->sources) << std::flush;
  std::cerr << arguments.path << ": ok\n";
  return kOk;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "check", "Validate a config and print every setting with the source of its value; starts nothing");
  command->footer(R"(
The settings are those that troupe train would run with: standard output is its config.resolved.toml. A pipeline's
schedule is proven complete and free of deadlock. Data files are not opened, so that a config can be checked where they
are not; what depends on them is found by train.

Examples:
  troupe check configs/fashion_mnist.toml
  troupe check configs/sync.toml --set parallel.worker_batch=96,32)");
  auto arguments = std::make_shared<ConfigArguments>();
  add_config_arguments(*command, *arguments);
  command->callback([arguments, &exit_code] { exit_code = check(*arguments); });
}
