#pragma once
#include <chrono>
#include <functional>
#include <memory>

#include <troupe/actors/cluster_parts.h>
#include <troupe/actors/mail.h>

namespace troupe {

struct CoordinatorParts {
  std::unique_ptr<ps::CoordinatorCore> core;
  std::shared_ptr<ps::Transport> transport;
  std::shared_ptr<RunObserver> observer;
  std::shared_ptr<Executor> files;                                        ///< where checkpoints are written
  std::function<Status(const ps::CheckpointRequest&)> write_checkpoint;   ///< may be empty
  std::chrono::milliseconds retry_interval{0};                            ///< 0: never
  std::function<void(const ps::Routes&)> set_routes;                      ///< of this process; may be empty
  std::function<void()> all_gone;  ///< nobody is left who must hear of the end; may be empty
};

/// Carries envelopes between the transport and CoordinatorCore, which decides everything, and gives
/// checkpoints to an executor.
CoordinatorActor spawn_coordinator(caf::actor_system& system, CoordinatorParts parts);

}  // namespace troupe
