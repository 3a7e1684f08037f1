#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include <troupe/actors/mail.h>

namespace troupe {

/// How a process becomes part of a run over the network.
struct JoinParts {
  ps::Hello hello;
  /// Makes ready for a run; may take long, and answers with `done` once, from any thread. Called once.
  std::function<void(const ps::Welcome&, std::function<void(Result<Prepared>)> done)> prepare;
  std::function<void(const ps::Welcome&)> welcomed;   ///< the transport takes the run's number and its own
  std::function<void(const ps::Routes&)> set_routes;
  std::function<ps::Heartbeat()> measure;             ///< queues; `number` and `routes` are filled in
  /// Called once, when the process has no more to do: the run is over, or it is not wanted, and why.
  std::function<void(Status)> ended;
  std::chrono::milliseconds give_up{60'000};          ///< without a word of the coordinator
};

struct NodeParts {
  ps::Endpoint self{ps::Role::node, 0, 1};            ///< with `join`: index kUnassigned, incarnation random
  ps::Endpoint coordinator{ps::Role::coordinator, 0, 1};
  /// Makes the actor of a slot, which heeds no coordinator of an older generation; with `join`, prepare gives it.
  std::function<caf::actor(const ps::Spawn&, ps::Generation)> spawn;
  std::shared_ptr<ps::Transport> transport;
  std::chrono::milliseconds retry_interval{0};        ///< 0: never
  std::optional<JoinParts> join;                      ///< none: a member from the start, in the coordinator's process
};

/// Starts, as the coordinator says, and watches the servers and workers of a process. It tells the coordinator which of
/// them ended without being told to, and why; when it ends itself, they end. Over the network it joins the run first
/// and says all the time that it lives.
NodeActor spawn_node(caf::actor_system& system, NodeParts parts);

}  // namespace troupe
