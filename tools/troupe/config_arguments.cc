#include <unistd.h>

#include <iostream>
#include <sstream>

#include "commands.h"

using namespace troupe;

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = ::environ; *entry; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

void add_config_arguments(CLI::App& command, ConfigArguments& arguments) {
  command.add_option("CONFIG", arguments.path, "TOML file that says what to train and how; see configs/")->required();
  command
      .add_option("--set", arguments.overrides,
                  "Set one key over file and environment; may be given often. Lists: model.hidden=512,256.\n"
                  "Update rules: update=async, or 'update=fc1:sync,*:ssp(2)'. Keys: troupe config --explain")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
}

Result<ps::LoadedConfig> load(const ConfigArguments& arguments) {
  ps::ConfigInput input;
  input.environment = environment();
  input.overrides = arguments.overrides;
  auto loaded = ps::load_config_file(arguments.path, std::move(input));
  if (loaded)
    for (const std::string& warning : loaded->warnings) std::cerr << "warning: " << warning << '\n';
  return loaded;
}

int report(const Error& error) {
  // One problem a line.
  std::istringstream lines(error.message);
  for (std::string line; std::getline(lines, line);) std::cerr << "error: " << line << '\n';
  switch (error.kind) {
    case ErrorKind::invalid:
    case ErrorKind::missing: return kBadUsage;
    case ErrorKind::cancelled: return kInterrupted;
    case ErrorKind::corrupt:
    case ErrorKind::exhausted:
    case ErrorKind::failed: return kRunFailed;
  }
  return kRunFailed;
}
