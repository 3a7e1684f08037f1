#pragma once
#include <functional>
#include <future>
#include <memory>

#include <troupe/actors/cluster_parts.h>
#include <troupe/actors/mail.h>

namespace troupe {

/// One run: a coordinator, its servers and workers, in the caller's actor system. This is the only place that
/// knows how they are put together. It starts with `start` and is over when `result` is there; whoever
/// destroys it earlier ends its actors. They end a little later: what `parts` refers to must last as long as
/// the actor system. Several clusters may live in one system and process.
class Cluster {
 public:
  /// Checks the parts and starts the actors. What is wrong with them is an error of kind `invalid`.
  static Result<std::unique_ptr<Cluster>> start(caf::actor_system& system, ClusterParts parts);
  ~Cluster();

  /// Waits for the end of the run, from a thread that is not an actor's.
  const ps::RunResult& wait();
  /// The result, once there is one. For callers that drive the scheduler themselves.
  const ps::RunResult* result() const;

  /// Ends the run at the next step boundary, after a checkpoint. Thread-safe; returns at once.
  void stop();
  /// The transport lost its connection to a node's process. Thread-safe.
  void link_lost(uint32_t node);
  /// Other policies from the next step boundary on. Thread-safe; returns at once. A rule that fits no layer is
  /// reported to the observer and changes nothing.
  void change_policies(std::vector<ps::UpdateRule> rules);

  /// After a coordinator that has ended: another goes on from `core`, which was told what the journal holds, and keeps
  /// what it is told itself there. For tests: processes do it by ClusterParts::recovered.
  void replace_coordinator(std::shared_ptr<ps::CoordinatorCore> core);

  /// The node that watches the run's actors, for tests.
  const NodeActor& node() const { return node_; }

 private:
  class Watch;

  Cluster() = default;

  std::shared_ptr<ps::Transport> transport_;
  std::shared_ptr<Watch> watch_;
  bool over_processes_ = false;
  NodeActor node_;  ///< of a run in one process
  std::function<CoordinatorActor(std::shared_ptr<ps::CoordinatorCore>, bool recovered)> make_coordinator_;
  CoordinatorActor coordinator_;
};

}  // namespace troupe
