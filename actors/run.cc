#include <troupe/actors/run.h>

#include <troupe/actors/cluster.h>
#include <troupe/actors/system_config.h>

namespace troupe {

struct Run::Impl {
  explicit Impl(uint32_t servers) : config(servers) {}

  SystemConfig config;
  caf::actor_system system{config};
  std::unique_ptr<Cluster> cluster;  // goes first: it ends the actors that the system waits for
};

Run::Run(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Run::~Run() = default;

Result<std::unique_ptr<Run>> Run::start(ClusterParts parts) {
  const FreeThread free;
  auto impl = std::make_unique<Impl>(parts.coordinator.layout.servers);
  auto cluster = Cluster::start(impl->system, std::move(parts));
  if (!cluster) return tl::unexpected<Error>(cluster.error());
  impl->cluster = std::move(*cluster);
  return std::unique_ptr<Run>(new Run(std::move(impl)));
}

const ps::RunResult& Run::wait() { return impl_->cluster->wait(); }
void Run::stop() { impl_->cluster->stop(); }
void Run::link_lost(uint32_t node) { impl_->cluster->link_lost(node); }
void Run::change_policies(std::vector<ps::UpdateRule> rules) { impl_->cluster->change_policies(std::move(rules)); }

}  // namespace troupe
