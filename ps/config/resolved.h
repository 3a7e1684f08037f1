#pragma once
#include <string>

#include <troupe/ps/config/load.h>

namespace troupe::ps {

/// The whole configuration as TOML that loads to the same configuration (config.resolved.toml). With
/// `sources`, every line ends with a comment that says where its value came from.
std::string resolved_toml(const RunConfig& config, const Sources* sources = nullptr);

/// Of the settings on which the processes of a run must agree (Scope::run): equal for equal ones, wherever they came
/// from. 16 hexadecimal digits.
std::string config_hash(const RunConfig& config);

/// Puts into the run's configuration what this process has for itself (Scope::process) in `own`, where that says
/// something else than the defaults.
void keep_own(RunConfig& run, const RunConfig& own);

}  // namespace troupe::ps
