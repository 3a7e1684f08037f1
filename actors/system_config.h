#pragma once
#include <algorithm>
#include <thread>

#include <caf/all.hpp>

namespace troupe {

/// For actor systems that Troupe makes itself. Only servers compute on the scheduler's threads: more threads than
/// servers would have nothing to do but be woken, and a message between two actors that share a thread wakes nobody.
/// With `sharing`, messages from foreign threads take the short way.
struct SystemConfig : caf::actor_system_config {
  explicit SystemConfig(uint32_t servers) {
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", std::clamp(servers, 1u, std::max(1u, std::thread::hardware_concurrency())));
  }
};

}  // namespace troupe
