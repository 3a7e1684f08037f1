#pragma once
#include <string>

namespace troupe::launch {

/// What the run itself says, in its summary.json, of how far it came and what its failures cost: "the run: finished;
/// last step 512; workers and servers replaced: 1; updates lost: 0". Only what stands there; empty without a summary.
std::string run_facts(const std::string& run_folder);

}  // namespace troupe::launch
