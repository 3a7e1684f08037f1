#pragma once
#include <chrono>
#include <functional>
#include <memory>

#include <troupe/actors/cluster_parts.h>

namespace troupe {

/// What a process that joins a run is made of.
struct NodeRunParts {
  ps::Hello hello;
  uint32_t incarnation = 1;                           ///< random: tells this process from others until it is welcomed
  std::shared_ptr<ps::Transport> transport;           ///< whatever goes to the coordinator reaches it
  std::function<void(const ps::Welcome&)> welcomed;   ///< the transport takes the run's number and its own
  std::function<void(const ps::Routes&)> set_routes;
  std::function<ps::Heartbeat()> measure;
  /// Everything for the run's workers and servers, from its config. Called once, on a thread of its own; the
  /// transport is filled in.
  std::function<Result<ClusterParts>(const ps::Welcome&)> prepare;
  std::string config_hash;                            ///< of a config of its own; else empty
  std::chrono::milliseconds give_up{60'000};          ///< without a word of the coordinator
  std::chrono::milliseconds retry_interval{200};
};

/// This process as a node of a run that another one coordinates: it joins, does what it is told, and leaves. The
/// header costs no CAF. Several may live in one process.
class NodeRun {
 public:
  static std::unique_ptr<NodeRun> join(NodeRunParts parts);
  ~NodeRun();

  /// Waits for the end; an error says why the process was not wanted or what failed here. ErrorKind::missing without a
  /// Welcome before: the coordinator never answered.
  Status wait();
  /// Asks the coordinator to do without this process; it ends when it may. Thread-safe; returns at once.
  void leave();

 private:
  struct Impl;
  explicit NodeRun(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
