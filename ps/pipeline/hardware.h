#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// What the planner knows of the machines, from a TOML file of `key = value` lines with these names. 1 GB = 1e9 bytes.
struct Hardware {
  std::string name;
  int64_t devices = 1;
  int64_t devices_per_node = 1;
  double memory_gb = 16;         ///< of a device
  double peak_tflops = 1;        ///< of a device, in the precision that is trained in
  double efficiency = 0.6;       ///< share of the peak that large matrix products reach
  int64_t bytes_a_value = 4;     ///< in that precision: 2 or 4
  double memory_gb_per_s = 100;  ///< between a device and its memory
  double link_gb_per_s = 10;     ///< a device to others of its node, each way
  double network_gb_per_s = 1;   ///< a device to other nodes, each way: a node's links divided by its devices
  double latency_us = 10;        ///< of a message

  /// Of each of `group` devices next to each other to the others: the links, where all are of one node.
  double bytes_per_s(uint64_t group) const {
    return 1e9 * (group <= static_cast<uint64_t>(devices_per_node) ? link_gb_per_s : network_gb_per_s);
  }
};

/// Errors begin with NAME:LINE:COLUMN: an unknown key (with the nearest known one), a wrong type or range; or name the
/// keys that are missing.
Result<Hardware> parse_hardware(std::string_view toml, const std::string& name);
Result<Hardware> read_hardware(const std::string& path);

}  // namespace troupe::ps
