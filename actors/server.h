#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include <troupe/actors/mail.h>
#include <troupe/kernels/base/trace.h>
#include <troupe/kernels/tensor/executor.h>
#include <troupe/ps/param/shard.h>
#include <troupe/ps/param/shard_device.h>

namespace troupe {

/// A device for a shard, and the queue that everything of that shard runs on.
struct ServerDevice {
  std::function<Result<std::shared_ptr<ps::ShardDevice>>()> open;  ///< called on the queue: it may take seconds
  std::shared_ptr<Executor> queue;                                 ///< this server's alone
};

struct ServerParts {
  ps::ShardOptions options;  ///< `device` is filled in
  /// Called once, where the shard will be used. May throw.
  std::function<std::unique_ptr<ps::Shard>(const ps::ShardOptions&)> make_shard;
  std::shared_ptr<ps::ShardStore> store;  ///< the shard's
  std::optional<ServerDevice> device;     ///< [the shard lives in host memory]
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
