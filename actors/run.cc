#include <troupe/actors/run.h>

#include <algorithm>
#include <thread>

#include <troupe/actors/cluster.h>

namespace troupe {
namespace {

struct SystemConfig : caf::actor_system_config {
  SystemConfig() {
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", std::max(2u, std::thread::hardware_concurrency()));
  }
};

}  // namespace

struct Run::Impl {
  SystemConfig config;
  caf::actor_system system{config};
  std::unique_ptr<Cluster> cluster;  // goes first: it ends the actors that the system waits for
};

Run::Run(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Run::~Run() = default;

Result<std::unique_ptr<Run>> Run::start(ClusterParts parts) {
  auto impl = std::make_unique<Impl>();
  auto cluster = Cluster::start(impl->system, std::move(parts));
  if (!cluster) return tl::unexpected<Error>(cluster.error());
  impl->cluster = std::move(*cluster);
  return std::unique_ptr<Run>(new Run(std::move(impl)));
}

const ps::RunResult& Run::wait() { return impl_->cluster->wait(); }
void Run::stop() { impl_->cluster->stop(); }
void Run::change_policies(std::vector<ps::UpdateRule> rules) { impl_->cluster->change_policies(std::move(rules)); }

}  // namespace troupe
