#pragma once
#include <memory>

#include <caf/fwd.hpp>

#include <troupe/ps/control/coordinator_core.h>
#include <troupe/ps/transport/transport.h>

namespace troupe {

/// A process's transport, over which the workers of a run of several processes reach the servers. Layers that the config
/// says are all-reduced, at any time, are pushed and pulled once a process (CombiningTransport); where there are none
/// the transport is `next` itself.
std::shared_ptr<ps::Transport> combine_pushes(caf::actor_system& system, std::shared_ptr<ps::Transport> next,
                                              const ps::CoordinatorOptions& options);

}  // namespace troupe
