#pragma once
#include <memory>
#include <set>

#include <caf/fwd.hpp>

#include <troupe/ps/control/coordinator_core.h>
#include <troupe/ps/transport/transport.h>

namespace troupe {

/// A process's transport, over which the workers of a run of several processes reach the servers. Layers that the
/// config says are all-reduced, at any time, are pushed and pulled once a process (CombiningTransport); where there are
/// none the transport is `next` itself.
/// `devices`: workers compute on devices, which add up what is pushed (host_reducer.h): pulls alone are shared.
std::shared_ptr<ps::Transport> combine_pushes(caf::actor_system& system, std::shared_ptr<ps::Transport> next,
                                              const ps::CoordinatorOptions& options, bool devices);

/// Those layers.
std::set<ps::LayerId> ever_all_reduced(const ps::CoordinatorOptions& options);

}  // namespace troupe
