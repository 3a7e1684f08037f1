#include <troupe/actors/actor_queue.h>

#include <troupe/actors/system_config.h>

namespace troupe {
namespace {

void finish(caf::actor_system& system, Executor* queue) {
  const FreeThread free;
  system.spawn<caf::detached>([queue = std::shared_ptr<Executor>(queue)]() mutable { queue.reset(); });
}

}  // namespace

std::shared_ptr<Executor> make_actor_queue(caf::actor_system& system, std::string name, int threads) {
  return {make_cpu_queue(std::move(name), threads).release(), [&system](Executor* queue) { finish(system, queue); }};
}

}  // namespace troupe
