#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "scenario.h"

namespace troupe::sim {

struct SimulationResult {
  uint64_t hash = 0;  ///< over all messages delivered, in order
  int64_t events = 0;
  int64_t virtual_us = 0;
  ps::SimulatedTransport::Counts messages;          ///< until the network was healed
  bool failed = false;                              ///< it had to: what it held was lost with all copies, ...
  std::optional<std::string> violation;             ///< "rule: what, with values"
  std::optional<ps::CheckpointRequest> checkpoint;  ///< the last
  std::string trace;                                ///< the last events, a line each; only if asked for
};

/// Runs a cluster of real actors through `scenario`, one event at a time on the caller's thread: every choice
/// is drawn from the seed, so that a scenario always gives the same result. `trace`: how many of the last
/// events to keep as text.
SimulationResult simulate(const Scenario& scenario, size_t trace = 0);

}  // namespace troupe::sim
