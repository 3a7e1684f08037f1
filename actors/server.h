#pragma once
#include <chrono>
#include <functional>
#include <memory>

#include <troupe/actors/mail.h>
#include <troupe/kernels/base/trace.h>
#include <troupe/kernels/tensor/executor.h>
#include <troupe/ps/param/shard.h>

namespace troupe {

struct ServerParts {
  ps::ShardOptions options;
  std::unique_ptr<ps::Shard> shard;
  std::shared_ptr<ps::ShardStore> store;  ///< the shard's
  ps::Generation since = 0;               ///< of the order to start it: no coordinator of an older one is heeded
  std::shared_ptr<ps::Transport> transport;
  std::chrono::milliseconds retry_interval{0};  ///< 0: never
  /// Makes the queue for the store's commits, this server's alone, when the first is needed; null: commits are made on
  /// the actor's thread, one for every event.
  std::function<std::shared_ptr<Executor>()> commits;
  Track track;  ///< row of the trace; empty: nothing is recorded
};

/// Carries envelopes between the transport and one shard, which decides everything.
ServerActor spawn_server(caf::actor_system& system, ServerParts parts);

}  // namespace troupe
