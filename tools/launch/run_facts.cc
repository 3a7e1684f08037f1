#include "run_facts.h"

#include <utility>

#include <troupe/ps/metrics/summary_facts.h>

namespace troupe::launch {

std::string run_facts(const std::string& run_folder) {
  const auto facts = ps::read_summary_facts(run_folder + "/summary.json");
  if (!facts) return "";
  std::string text;
  for (const auto& [name, words] : {std::pair("outcome", "the run: "), std::pair("steps", "last step "),
                                    std::pair("restarts", "workers and servers replaced: "),
                                    std::pair("updates_lost", "updates lost: "), std::pair("error", "first cause: ")}) {
    const auto found = facts->find(name);
    if (found != facts->end()) text += (text.empty() ? "" : "; ") + (words + found->second);
  }
  return text;
}

}  // namespace troupe::launch
