#pragma once
#include <algorithm>

#include <caf/all.hpp>

#include <troupe/kernels/base/cores.h>

namespace troupe {

/// For actor systems that Troupe makes itself. Only servers compute on the scheduler's threads: more threads than
/// servers would have nothing to do but be woken, more than cores would take turns, and a message between two actors
/// that share a thread wakes nobody. With `sharing`, messages from foreign threads take the short way.
struct SystemConfig : caf::actor_system_config {
  explicit SystemConfig(uint32_t servers) {
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", std::clamp(servers, 1u, usable_cores()));
  }
};

/// CAF ties a thread that makes a system, or spawns into one, to that system's logger, and the system's end waits
/// without end for another thread that is tied to it. With one of these a thread that was free is free again
/// afterwards.
class FreeThread {
 public:
  ~FreeThread() {
    if (was_free_) CAF_SET_LOGGER_SYS(nullptr);
  }

 private:
  const bool was_free_ = caf::logger::current_logger() == nullptr;
};

}  // namespace troupe
