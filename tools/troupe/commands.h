#pragma once
#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/config/load.h>

#include "exit_code.h"

/// One function a command, one file a function: it adds its subcommand to `app`. Parsing the command line runs
/// the command, which leaves how it ended in `exit_code` (owned by main; an ExitCode).
void add_check(CLI::App& app, int& exit_code);
void add_config(CLI::App& app, int& exit_code);
void add_train(CLI::App& app, int& exit_code);
void add_launch(CLI::App& app, int& exit_code);
void add_ckpt(CLI::App& app, int& exit_code);
void add_sample(CLI::App& app, int& exit_code);
void add_keys(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_node(CLI::App& app, int& exit_code);
void add_status(CLI::App& app, int& exit_code);
void add_stop(CLI::App& app, int& exit_code);
void add_trace(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_profile(CLI::App& app, int& exit_code);

/// CONFIG and --set, as all commands that start from a config take them.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides;
};
void add_config_arguments(CLI::App& command, ConfigArguments& arguments);
/// The variables of this process.
std::map<std::string, std::string> environment();
/// File, environment and command line. Warnings go to standard error.
troupe::Result<troupe::ps::LoadedConfig> load(const ConfigArguments& arguments);

/// Writes the error to standard error; the exit code that goes with its kind.
int report(const troupe::Error& error);
