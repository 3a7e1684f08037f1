#pragma once
#include <string>

namespace troupe::sim {

/// Turns a fault on. False where there is none of that name: in troupe-sim always.
bool seed_bug(const std::string& name);
/// "none", or the names.
std::string bug_names();

}  // namespace troupe::sim
