#pragma once
#include <chrono>
#include <functional>
#include <memory>

#include <troupe/actors/server.h>
#include <troupe/ps/control/replica_core.h>

namespace troupe {

struct ReplicaParts {
  ps::ReplicaOptions options;
  std::shared_ptr<ps::Transport> transport;
  std::chrono::milliseconds retry_interval{0};  ///< 0: never
  /// What the server is made of that goes on from the twin: everything but the shard, which is made from it. Called on
  /// the actor's thread.
  std::function<ServerParts(const ps::Endpoint&)> successor;
};

/// Carries envelopes between the transport and a ReplicaCore. The actor of a replica becomes the server's actor when
/// it takes over: nothing is handed from thread to thread.
ReplicaActor spawn_replica(caf::actor_system& system, ReplicaParts parts);

/// The replica goes on as `server`, to which messages may be sent at once. Where it cannot (it holds no image yet) its
/// actor ends with an error: whoever watches it reports the server lost.
void take_over(const ReplicaActor& replica, const ps::Endpoint& server, ps::Transport& transport);

}  // namespace troupe
