#pragma once
#include <string>

#include <troupe/ps/config/load.h>

namespace troupe::ps {

/// The whole configuration as TOML that loads to the same configuration (config.resolved.toml). With
/// `sources`, every line ends with a comment that says where its value came from.
std::string resolved_toml(const RunConfig& config, const Sources* sources = nullptr);

}  // namespace troupe::ps
