#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <troupe/ps/metrics/lost_range.h>

namespace troupe::ps {

/// What `troupe status` shows of a running run.
struct RunStatus {
  std::string phase;              ///< "waiting for nodes", "running", ...
  std::string waits_for;          ///< who has to come or answer before it goes on; empty: nobody
  uint64_t generation = 0;
  int64_t step = 0, total_steps = 0, epoch = 0, samples = 0;
  int64_t worker_restarts = 0, server_restarts = 0, coordinator_restarts = 0, workers_dropped = 0;
  int64_t checkpoints = 0, checkpoints_failed = 0, skipped_steps = 0;
  /// The coordinator's own connections; those of nodes are theirs.
  struct Connections {
    int64_t queued_messages = 0, queued_bytes = 0;
    std::map<std::string, int64_t> refused;  ///< by why
  };
  Connections coordinator;
  struct Node {
    int64_t node = 0;
    std::string name, state;
    int64_t silent_ms = 0;        ///< since it was last heard of
    int64_t queued_messages = 0, queued_bytes = 0, refused_frames = 0;
    std::vector<std::string> holds;  ///< "worker 0"
  };
  struct Worker {
    int64_t worker = 0, node = -1;  ///< -1: waits for one
    int64_t next_step = 0;
    int64_t behind = 0;             ///< steps behind the furthest: the staleness that others may see
    int64_t outstanding = 0;        ///< pieces of work dealt and not done
    /// Of a piece of training work, lately: who computes longest keeps others waiting.
    double compute_s = 0, wait_s = 0;
  };
  struct Server {
    int64_t server = 0, node = -1;
    int64_t replica_node = -1;      ///< -1: none
  };
  std::vector<Node> nodes;
  std::vector<Worker> workers;
  std::vector<Server> servers;
  std::vector<LostRange> lost;
};

/// One JSON object; the keys are the names above.
std::string status_json(const RunStatus& status);
/// Tables for people, from such an object; an error where it is none.
std::string status_text(const std::string& json);
/// The same in Prometheus' text format 0.0.4; empty where it is none.
std::string status_prometheus(const std::string& json);

}  // namespace troupe::ps
