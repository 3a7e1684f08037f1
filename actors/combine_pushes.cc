#include <troupe/actors/combine_pushes.h>

#include <troupe/actors/actor_queue.h>
#include <troupe/ps/param/layer_names.h>
#include <troupe/ps/transport/combining_transport.h>

namespace troupe {
namespace {

void add_all_reduced(std::set<ps::LayerId>& layers, const std::vector<ps::Policy>& policies) {
  for (size_t layer = 0; layer < policies.size(); ++layer)
    if (policies[layer].mode == ps::Mode::all_reduce) layers.insert(static_cast<ps::LayerId>(layer));
}

/// A sum holds what it is taken for. The queue must not: it would be dropped by a sum, on its own thread, when the
/// actors' system may have ended.
struct Held {
  Held(std::shared_ptr<Executor> its, std::shared_ptr<ps::Transport> next, ps::CombiningOptions options)
      : queue(std::move(its)), transport(std::move(next), std::move(options)) {}
  std::shared_ptr<Executor> queue;
  ps::CombiningTransport transport;
};

}  // namespace

std::set<ps::LayerId> ever_all_reduced(const ps::CoordinatorOptions& options) {
  std::set<ps::LayerId> layers;
  add_all_reduced(layers, options.policies);
  for (const ps::PolicyChange& change : options.changes)
    if (const auto later = ps::resolve_policies(ps::layer_names(options.layers), change.rules))
      add_all_reduced(layers, *later);
  return layers;
}

std::shared_ptr<ps::Transport> combine_pushes(caf::actor_system& system, std::shared_ptr<ps::Transport> next,
                                              const ps::CoordinatorOptions& options, bool devices) {
  const std::set<ps::LayerId> layers = ever_all_reduced(options);
  if (layers.empty()) return next;
  ps::CombiningOptions combining;
  combining.combines = [layers](ps::LayerId layer) { return layers.contains(layer); };
  combining.pushes = !devices;
  auto queue = make_actor_queue(system, "combine");
  combining.later = [queue = std::weak_ptr(queue)](std::function<void()> sum) {
    if (const auto here = queue.lock()) here->submit(std::move(sum));
  };
  const auto held = std::make_shared<Held>(std::move(queue), std::move(next), std::move(combining));
  return {held, &held->transport};
}

}  // namespace troupe
