#pragma once
#include <tools/launch/launch_plan.h>

#include <functional>
#include <string>

#include "commands.h"
#include "network_arguments.h"

/// What `troupe launch` and `troupe train --processes` have in common.
struct LaunchArguments {
  ConfigArguments config;
  std::string run_dir, resume;
  NetworkArguments network;
  double start_timeout_s = 0;  ///< 0: as the config says
  double grace_s = 30;
  std::string show;
  bool dry_run = false;
};
/// --start-timeout, --grace, --show and --dry-run.
std::vector<CLI::Option*> add_launch_arguments(CLI::App& command, LaunchArguments& arguments);

/// What all processes of a launch are told, but for where they run and listen.
struct PreparedLaunch {
  troupe::launch::LaunchRequest request;
  troupe::launch::SupervisorOptions options;
};
troupe::Result<PreparedLaunch> prepare_launch(const LaunchArguments& arguments, const troupe::ps::RunConfig& config);

/// Shows the plan, or runs it; an ExitCode or the exit code of the job. The request gets its announce_file here, so
/// that `plan_of` makes the plan.
int run_launch(PreparedLaunch launch, bool dry_run,
               const std::function<troupe::launch::LaunchPlan(const troupe::launch::LaunchRequest&)>& plan_of);
