#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "child.h"

namespace troupe::launch {

/// Since the launcher began.
using Moment = std::chrono::milliseconds;

/// Something that went wrong with one process, and what the launcher did about it.
struct Incident {
  enum class Done { restarted, dropped, ended_the_run, nothing };

  Moment at{};
  std::string who;  ///< "coordinator", "node 2"
  std::string host;
  pid_t pid = 0;  ///< on that host; 0: never known
  Ending ending;
  std::string what;                       ///< instead of the ending, where the launcher gave up on it
  std::vector<std::string> stderr_lines;  ///< the last it wrote
  Done done = Done::nothing;

  /// What the job ends with, if this is its first failure.
  int exit_code() const { return what.empty() ? ending.exit_code() : 1; }
};

/// First to last, one line each under a heading, with the last lines of standard error below.
std::string incident_table(const std::vector<Incident>& incidents);

}  // namespace troupe::launch
