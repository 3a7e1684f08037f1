#include <troupe/actors/run.h>

#include <algorithm>
#include <thread>

#include <troupe/actors/cluster.h>

namespace troupe {
namespace {

/// Only servers compute on the scheduler's threads: more threads than servers would have nothing to do but be woken,
/// and a message between two actors that share a thread wakes nobody.
struct SystemConfig : caf::actor_system_config {
  explicit SystemConfig(uint32_t servers) {
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", std::clamp(servers, 1u, std::max(1u, std::thread::hardware_concurrency())));
  }
};

}  // namespace

struct Run::Impl {
  explicit Impl(uint32_t servers) : config(servers) {}

  SystemConfig config;
  caf::actor_system system{config};
  std::unique_ptr<Cluster> cluster;  // goes first: it ends the actors that the system waits for
};

Run::Run(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Run::~Run() = default;

Result<std::unique_ptr<Run>> Run::start(ClusterParts parts) {
  auto impl = std::make_unique<Impl>(parts.coordinator.layout.servers);
  auto cluster = Cluster::start(impl->system, std::move(parts));
  if (!cluster) return tl::unexpected<Error>(cluster.error());
  impl->cluster = std::move(*cluster);
  return std::unique_ptr<Run>(new Run(std::move(impl)));
}

const ps::RunResult& Run::wait() { return impl_->cluster->wait(); }
void Run::stop() { impl_->cluster->stop(); }
void Run::change_policies(std::vector<ps::UpdateRule> rules) { impl_->cluster->change_policies(std::move(rules)); }

}  // namespace troupe
