#include <iostream>

#include <troupe/ps/config/resolved.h>

#include "commands.h"

using namespace troupe;

namespace {

int check(const ConfigArguments& arguments) {
  const auto loaded = load(arguments);
  if (!loaded) return report(loaded.error());
  std::cout << ps::resolved_toml(loaded->config, &loaded->sources) << std::flush;
  std::cerr << arguments.path << ": ok\n";
  return kOk;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "check", "Validate a config and print every setting with the source of its value; starts and opens nothing");
  auto arguments = std::make_shared<ConfigArguments>();
  add_config_arguments(*command, *arguments);
  command->callback([arguments, &exit_code] { exit_code = check(*arguments); });
}
