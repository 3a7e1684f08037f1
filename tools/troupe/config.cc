#include <iostream>

#include <troupe/ps/config/explain.h>

#include "commands.h"

using namespace troupe;

namespace {

int explain(const std::string& key) {
  const auto text = ps::explain(key);
  if (!text) return report(text.error());
  std::cout << *text << std::flush;
  return kOk;
}

}  // namespace

void add_config(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("config", "Explain the settings of a config");
  command->footer(R"(
Examples:
  troupe config --explain                           every setting
  troupe config --explain optimizer                 a table
  troupe config --explain optimizer.learning_rate   one)");
  auto key = std::make_shared<std::string>();
  command->add_option("--explain", *key, "All settings, or those of a table (train), or one (train.epochs)")
      ->expected(0, 1)
      ->type_name("[KEY]")
      ->required();
  command->callback([key, &exit_code] { exit_code = explain(*key); });
}
