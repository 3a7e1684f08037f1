#pragma once
#include <map>
#include <memory>

#include <caf/all.hpp>

#include <troupe/actors/cluster_parts.h>
#include <troupe/actors/device_group.h>
#include <troupe/actors/local_group.h>
#include <troupe/actors/server.h>

namespace troupe {

/// Makes the actors of a process's slots, again after a loss. Thread-safe only in that its node calls it alone.
class Workshop {
 public:
  /// Empty parts get their defaults.
  Workshop(caf::actor_system& system, ClusterParts parts);

  /// A server, worker or replica for the slot that `order` names; a server that takes over is the actor that was its
  /// replica. It heeds no coordinator of a generation before `since`. What the parts make may throw.
  caf::actor make(const ps::Spawn& order, ps::Generation since);

  const ClusterParts& parts() const { return parts_; }

 private:
  ServerParts server_parts(const ps::Endpoint& who, ps::Generation since) const;
  ServerDevice server_device(const ps::Endpoint& who) const;
  caf::actor server(const ps::Spawn& order, ps::Generation since);
  caf::actor successor(const ps::Endpoint& who, const ps::Endpoint& replica);
  caf::actor replica(const ps::Endpoint& who, ps::Generation since);
  caf::actor worker(const ps::Endpoint& who, ps::Generation since);
  std::function<std::shared_ptr<Reducer>()> reducer(const ps::Endpoint& who, std::shared_ptr<Executor> compute,
                                                    Track track);
  std::shared_ptr<DeviceGroup> device_group();
  std::shared_ptr<LocalGroup> local_group(uint32_t stage);
  void check_layers(const ps::Endpoint& who, const GradientSource& source) const;

  caf::actor_system& system_;
  ClusterParts parts_;
  std::map<uint32_t, std::shared_ptr<LocalGroup>> groups_;  ///< of the replicas' same stage
  std::shared_ptr<DeviceGroup> device_group_;
  std::map<ps::Endpoint, ServerActor> replicas_;  ///< made here, and not taken over yet
};

/// What is missing in `parts`, as cluster_parts.h says, for actors of `system`. Idempotent.
void fill_defaults(caf::actor_system& system, ClusterParts& parts);

}  // namespace troupe
