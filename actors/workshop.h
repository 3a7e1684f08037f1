#pragma once
#include <memory>

#include <caf/all.hpp>

#include <troupe/actors/cluster_parts.h>

namespace troupe {

/// Makes the actors of a process's slots, again after a loss. Thread-safe only in that its node calls it alone.
class Workshop {
 public:
  /// Empty parts get their defaults.
  Workshop(caf::actor_system& system, ClusterParts parts);

  /// A server or worker for the slot that `order` names. What the parts make may throw.
  caf::actor make(const ps::Spawn& order);

  const ClusterParts& parts() const { return parts_; }

 private:
  caf::actor server(const ps::Spawn& order);
  caf::actor worker(const ps::Endpoint& who);
  void check_layers(const ps::Endpoint& who, const GradientSource& source) const;

  caf::actor_system& system_;
  ClusterParts parts_;
};

/// What is missing in `parts`, as cluster_parts.h says. Idempotent.
void fill_defaults(ClusterParts& parts);

}  // namespace troupe
