#include "bugs.h"

namespace troupe::sim {

bool seed_bug(const std::string&) { return false; }
std::string bug_names() { return "none: faults are in troupe-sim-bugs"; }

}  // namespace troupe::sim
