#pragma once
#include <sstream>
#include <string>

namespace troupe {

/// The arguments written one after the other, as `operator<<` writes them.
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  static_cast<void>((out << ... << args));
  return out.str();
}

}  // namespace troupe
