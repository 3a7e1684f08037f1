#pragma once
#include <chrono>
#include <functional>
#include <memory>

#include <troupe/actors/cluster_parts.h>
#include <troupe/actors/mail.h>

namespace troupe {

struct CoordinatorParts {
  std::shared_ptr<ps::CoordinatorCore> core;
  bool recovered = false;                 ///< the core has been told what its predecessor was, and goes on from there
  std::shared_ptr<ps::Journal> journal;   ///< keeps what the core is told, before it is done; may be null
  std::shared_ptr<ps::Transport> transport;
  std::shared_ptr<RunObserver> observer;
  std::shared_ptr<Executor> files;  ///< in order: where checkpoints are written and read
  std::function<Status(const ps::CheckpointRequest&)> write_checkpoint;   ///< may be empty
  std::function<Result<ps::Reload>(const ps::ReloadRequest&)> read_checkpoint;
  std::chrono::milliseconds retry_interval{0};                            ///< 0: never
  std::function<void(const ps::Routes&)> set_routes;                      ///< of this process; may be empty
  std::function<void()> all_gone;  ///< nobody is left who must hear of the end; may be empty
};

/// Carries envelopes between the transport and CoordinatorCore, which decides everything, and gives
/// checkpoints to an executor. Where the journal cannot be written the run goes on without.
CoordinatorActor spawn_coordinator(caf::actor_system& system, CoordinatorParts parts);

}  // namespace troupe
