#include "announcement.h"

#include <fstream>

namespace troupe::launch {

std::optional<Announcement> read_announcement(const std::string& path) {
  std::ifstream file(path);
  Announcement said;
  if (!std::getline(file, said.address) || !std::getline(file, said.run_folder)) return std::nullopt;
  if (said.address.empty() || said.run_folder.empty()) return std::nullopt;
  return said;
}

}  // namespace troupe::launch
