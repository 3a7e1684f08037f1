#pragma once
#include <chrono>
#include <functional>
#include <memory>

#include <troupe/actors/mail.h>

namespace troupe {

struct NodeParts {
  ps::Endpoint self{ps::Role::node, 0, 1};
  ps::Endpoint coordinator{ps::Role::coordinator, 0, 1};
  std::function<caf::actor(const ps::Endpoint&)> spawn;   ///< makes the actor of a slot
  std::shared_ptr<ps::Transport> transport;
  std::chrono::milliseconds retry_interval{0};            ///< 0: never
};

/// Starts, as the coordinator says, and watches the servers and workers of a process. It tells the coordinator which of them ended
/// without being told to, and why; when it ends itself, they end.
NodeActor spawn_node(caf::actor_system& system, NodeParts parts);

}  // namespace troupe
