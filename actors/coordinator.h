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
};

/// Carries envelopes between the transport and CoordinatorCore, which decides everything, and gives
/// checkpoints to an executor.
CoordinatorActor spawn_coordinator(caf::actor_system& system, CoordinatorParts parts);

}  // namespace troupe
