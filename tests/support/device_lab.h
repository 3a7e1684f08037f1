#pragma once
#include <tests/support/cluster_lab.h>
#include <tests/support/late_updates.h>

/// Runs whose workers compute on late devices, and sum and update all_reduce layers there.
namespace troupe::test {

inline std::shared_ptr<LateBackend> late_backend(uint64_t seed, size_t devices = 2) {
  auto backend = std::make_shared<LateBackend>(seed, devices);
  backend->updates = &late_update_ops();
  return backend;
}

/// `parts` of `bench` with a device a worker.
inline ClusterParts on_devices(const Bench& bench, ClusterParts parts, std::shared_ptr<Backend> backend,
                               Hooks hooks = {}, nn::LaunchOptions launches = {}) {
  const ps::DataSets sets = bench.sets();
  const auto model = std::make_shared<const nn::Model>(nn::make_model(bench.model).value());
  parts.source = [model, sets, backend, hooks, launches](ps::WorkerId worker) -> std::unique_ptr<GradientSource> {
    StreamOptions options;
    options.device = static_cast<int>(worker % backend->devices().size());
    auto source = nn::ModelSource::make(model, sets.train, sets.test, backend, options, DType::f32, launches).value();
    return std::make_unique<HookedSource>(std::move(source), worker, hooks);
  };
  parts.devices = DeviceParts{backend, [](ps::WorkerId worker) -> Result<int> { return static_cast<int>(worker); },
                              bench.optimizer};
  return parts;
}

}  // namespace troupe::test
