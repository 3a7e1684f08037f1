#pragma once
#include <memory>
#include <string>

#include <caf/fwd.hpp>

#include <troupe/kernels/tensor/executor.h>

namespace troupe {

/// make_cpu_queue for an actor: whoever drops it last does not wait for the task that runs. An actor ends on a
/// thread that all actors share, and a source's step may be long, or wait for an actor itself. The queue finishes
/// on a thread of its own, which `system`, whom it must not outlive, waits for at its end.
std::shared_ptr<Executor> make_actor_queue(caf::actor_system& system, std::string name, int threads = 1);

}  // namespace troupe
