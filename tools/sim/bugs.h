#pragma once
#include <string>

namespace troupe::sim {

/// Whether faults are compiled into this program: into troupe-sim-bugs alone.
bool has_bugs();
/// Turns a fault on. False where there is none of that name.
bool seed_bug(const std::string& name);
/// With blanks between them.
std::string bug_names();

}  // namespace troupe::sim
