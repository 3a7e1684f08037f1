#include <troupe/actors/cluster.h>

#include <algorithm>
#include <mutex>

#include <troupe/actors/coordinator.h>
#include <troupe/actors/node.h>
#include <troupe/actors/self.h>
#include <troupe/actors/workshop.h>

namespace troupe {

/// Passes everything on to the caller's observer and keeps the result.
class Cluster::Watch final : public RunObserver {
 public:
  explicit Watch(std::shared_ptr<RunObserver> next) : next_(std::move(next)) {}

  void on_step(const ps::StepReport& r) override { if (next_) next_->on_step(r); }
  void on_evaluation(const ps::EvaluationReport& r) override { if (next_) next_->on_evaluation(r); }
  void on_event(const std::string& e) override { if (next_) next_->on_event(e); }
  void on_news(const std::string& n) override { if (next_) next_->on_news(n); }
  void on_finished(const ps::RunResult& result) override {
    {
      std::lock_guard lock(mutex_);
      if (result_) return;
      result_ = std::make_unique<ps::RunResult>(result);
    }
    std::string thrown;
    try {
      if (next_) next_->on_finished(result);
    } catch (const std::exception& e) {
      thrown = e.what();
    }
    std::lock_guard lock(mutex_);
    if (!thrown.empty() && result_->outcome != ps::Outcome::failed) {
      result_->outcome = ps::Outcome::failed;
      result_->failure = "the observer of the run's end failed: " + thrown;
    }
    heard_ = true;  // whatever happened there: somebody may wait
    there_.notify_all();
  }

  /// Whoever waits must hear of a coordinator that a bug ended.
  void coordinator_ended(const caf::error& reason) {
    ps::RunResult result;
    result.outcome = ps::Outcome::failed;
    result.failure = "the coordinator ended: " + describe(reason);
    on_finished(result);
  }

  void all_gone() {
    std::lock_guard lock(mutex_);
    all_gone_ = true;
    there_.notify_all();
  }
  /// The coordinator leaves last, but does not wait for ever for a process that has died unseen.
  void wait_until_all_gone() {
    std::unique_lock lock(mutex_);
    there_.wait_for(lock, std::chrono::seconds(5), [this] { return all_gone_; });
  }

  const ps::RunResult* result() {
    std::lock_guard lock(mutex_);
    return heard_ ? result_.get() : nullptr;
  }
  const ps::RunResult& wait() {
    std::unique_lock lock(mutex_);
    there_.wait(lock, [this] { return heard_; });
    return *result_;
  }

 private:
  std::shared_ptr<RunObserver> next_;
  std::mutex mutex_;
  std::condition_variable there_;
  std::unique_ptr<ps::RunResult> result_;
  bool heard_ = false;  ///< by the caller's observer too
  bool all_gone_ = false;
};

namespace {

Status check(const ClusterParts& parts) {
  TROUPE_CHECK(parts.source && parts.optimizer && parts.initial, "source, optimizer and initial are needed");
  const int64_t batch = parts.coordinator.dealer.global_batch;
  if (parts.optimizer->needs_whole_tensors() && !parts.coordinator.layout.whole_layers)
    return fail(ErrorKind::invalid, parts.optimizer->name() + " needs whole layers (LayoutOptions::whole_layers)");
  if (batch < 1) return fail(ErrorKind::invalid, cat("the global batch is ", batch));
  return {};
}

NodeActor spawn_local_node(caf::actor_system& system, ClusterParts parts) {
  NodeParts node;
  node.self = parts.coordinator.node;
  node.coordinator = parts.coordinator.self;
  node.transport = parts.transport;
  node.retry_interval = parts.retry_interval;
  node.spawn = [workshop = std::make_shared<Workshop>(system, std::move(parts))](const ps::Spawn& order,
                                                                                   ps::Generation since) {
    return workshop->make(order, since);
  };
  return spawn_node(system, std::move(node));
}

}  // namespace

Result<std::unique_ptr<Cluster>> Cluster::start(caf::actor_system& system, ClusterParts parts) {
  TROUPE_TRY(check(parts));
  std::shared_ptr<ps::CoordinatorCore> core = parts.recovered;
  if (!core) {
    auto made = ps::CoordinatorCore::make(parts.coordinator);
    if (!made) return tl::unexpected<Error>(made.error());
    core = std::move(*made);
  }
  fill_defaults(system, parts);
  if (parts.record_dealt) core->on_dealt(parts.record_dealt);
  if (parts.replay) core->replay(parts.replay->dealt);

  std::unique_ptr<Cluster> cluster(new Cluster);
  cluster->transport_ = parts.transport;
  cluster->watch_ = std::make_shared<Watch>(parts.observer);

  CoordinatorParts coordinator;
  coordinator.journal = parts.journal;
  coordinator.transport = parts.transport;
  coordinator.observer = cluster->watch_;
  coordinator.files = parts.executor(parts.coordinator.self, "checkpoint");
  coordinator.write_checkpoint = parts.write_checkpoint;
  coordinator.read_checkpoint = parts.read_checkpoint;
  coordinator.retry_interval = parts.retry_interval;

  coordinator.set_routes = parts.set_routes;
  coordinator.all_gone = [watch = cluster->watch_] { watch->all_gone(); };

  cluster->over_processes_ = parts.coordinator.roster.nodes > 0;
  cluster->make_coordinator_ = [&system, made_of = std::move(coordinator), watch = cluster->watch_,
                                goes_on = parts.coordinator_ended](std::shared_ptr<ps::CoordinatorCore> core,
                                                                   bool recovered) {
    CoordinatorParts its = made_of;
    its.core = std::move(core);
    its.recovered = recovered;
    const CoordinatorActor actor = spawn_coordinator(system, std::move(its));
    caf::actor_cast<caf::actor>(actor)->attach_functor([watch, goes_on](const caf::error& reason) {
      if (!reason) return;  // it has given way to another, and said so
      if (!goes_on || !goes_on(describe(reason))) watch->coordinator_ended(reason);
    });
    return actor;
  };
  const bool recovered = parts.recovered != nullptr;
  if (!cluster->over_processes_) cluster->node_ = spawn_local_node(system, std::move(parts));
  cluster->coordinator_ = cluster->make_coordinator_(std::move(core), recovered);
  return cluster;
}

void Cluster::replace_coordinator(std::shared_ptr<ps::CoordinatorCore> core) {
  coordinator_ = make_coordinator_(std::move(core), true);
}

Cluster::~Cluster() {
  if (node_) caf::anon_send_exit(node_, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(coordinator_, caf::exit_reason::kill);
}

const ps::RunResult& Cluster::wait() {
  const ps::RunResult& result = watch_->wait();
  if (over_processes_) watch_->wait_until_all_gone();
  return result;
}
const ps::RunResult* Cluster::result() const { return watch_->result(); }

void Cluster::stop() { caf::anon_send(coordinator_, std::make_shared<const Control>(StopRun{})); }

void Cluster::link_lost(uint32_t node) {
  caf::anon_send(coordinator_, std::make_shared<const Control>(LinkLost{node}));
}

void Cluster::change_policies(std::vector<ps::UpdateRule> rules) {
  caf::anon_send(coordinator_, std::make_shared<const Control>(ChangePolicies{std::move(rules)}));
}

}  // namespace troupe
