#pragma once
#include <memory>

#include <troupe/actors/cluster_parts.h>

namespace troupe {

/// A cluster in an actor system of its own, for programs that have none: the header costs no CAF. The scheduler
/// gets one thread a server, as far as there are cores; messages from foreign threads then take the short way (CAF's
/// `sharing` policy).
class Run {
 public:
  /// See Cluster::start.
  static Result<std::unique_ptr<Run>> start(ClusterParts parts);
  ~Run();

  /// Waits for the end. As in Cluster, `stop` and `change_policies` return at once and are thread-safe.
  const ps::RunResult& wait();
  void stop();
  void link_lost(uint32_t node);
  void change_policies(std::vector<ps::UpdateRule> rules);

 private:
  struct Impl;
  explicit Run(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
