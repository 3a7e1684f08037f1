#pragma once
#include <string>

#include <troupe/ps/control/run_result.h>
#include <troupe/ps/metrics/summary.h>

namespace troupe::ps {

/// The summary of a run that took `seconds` for what it trained. Name, exit code, and lines lost are the
/// caller's to add.
RunSummary summarize(const RunResult& result, double seconds);

/// The layers of a run of `workers` that has not begun: names, policies, sizes, servers, and what a step moves.
std::vector<LayerSummary> layers_of(const Layout& layout, int64_t workers);

/// How evenly the servers are loaded: "2 servers hold 1.1 MB and 1.0 MB; fullest to mean 1.03". Of many servers
/// only the fullest and the emptiest are named.
std::string server_line(const Layout& layout);
/// "stage 0: conv1 to conv2; stage 1: fc1, fc2" in a line of its own; empty where a replica is one worker.
std::string stage_line(const Layout& layout);

}  // namespace troupe::ps
