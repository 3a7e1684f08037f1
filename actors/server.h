#pragma once
#include <chrono>
#include <functional>
#include <memory>

#include <troupe/actors/mail.h>
#include <troupe/ps/param/shard.h>

namespace troupe {

struct ServerParts {
  ps::ShardOptions options;
  std::unique_ptr<ps::Shard> shard;
  std::shared_ptr<ps::Transport> transport;
  std::chrono::milliseconds retry_interval{0};  ///< 0: never
};

/// Carries envelopes between the transport and one shard, which decides everything.
ServerActor spawn_server(caf::actor_system& system, ServerParts parts);

}  // namespace troupe
