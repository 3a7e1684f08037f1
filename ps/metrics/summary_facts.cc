#include <troupe/ps/metrics/summary_facts.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {

Result<std::map<std::string, std::string>> read_summary_facts(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(ErrorKind::missing, cat(path, ": cannot be read"));
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object())
    return fail(ErrorKind::corrupt, cat(path, ": is not a summary, but damaged or something else"));
  std::map<std::string, std::string> facts;
  for (const auto& [name, value] : json.items()) {
    if (value.is_string()) facts[name] = value.get<std::string>();
    if (value.is_number()) facts[name] = value.dump();
  }
  return facts;
}

}  // namespace troupe::ps
