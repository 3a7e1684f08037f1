#include "bugs.h"

namespace troupe::sim {

bool has_bugs() { return false; }
bool seed_bug(const std::string&) { return false; }
std::string bug_names() { return ""; }

}  // namespace troupe::sim
