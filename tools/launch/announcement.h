#pragma once
#include <optional>
#include <string>

namespace troupe::launch {

/// What the coordinator says once it listens, in a file that appears whole: line 1 and line 2.
struct Announcement {
  std::string address;
  std::string run_folder;
};

/// None where there is no such file yet, or not both lines in it.
std::optional<Announcement> read_announcement(const std::string& path);

}  // namespace troupe::launch
