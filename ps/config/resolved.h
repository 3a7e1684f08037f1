#pragma once
#include <string>

#include <troupe/ps/config/load.h>

namespace troupe::ps {

/// The whole configuration as TOML that loads to the same configuration (config.resolved.toml). With
/// `sources`, every line ends with a comment that says where its value came from.
std::string resolved_toml(const RunConfig& config, const Sources* sources = nullptr);

/// Equal for equal configurations, wherever they came from: 16 hexadecimal digits.
std::string config_hash(const RunConfig& config);

}  // namespace troupe::ps
