#include <troupe/actors/cluster.h>

#include <algorithm>
#include <mutex>

#include <troupe/actors/coordinator.h>
#include <troupe/actors/node.h>
#include <troupe/actors/server.h>
#include <troupe/actors/worker.h>
#include <troupe/kernels/collective/thread_group.h>
#include <troupe/ps/transport/memory_transport.h>

namespace troupe {

/// Passes everything on to the caller's observer and keeps the result.
class Cluster::Watch final : public RunObserver {
 public:
  explicit Watch(std::shared_ptr<RunObserver> next) : next_(std::move(next)) {}

  void on_step(const ps::StepReport& r) override { if (next_) next_->on_step(r); }
  void on_evaluation(const ps::EvaluationReport& r) override { if (next_) next_->on_evaluation(r); }
  void on_event(const std::string& e) override { if (next_) next_->on_event(e); }
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

void fill_defaults(ClusterParts& parts) {
  if (!parts.transport) parts.transport = std::make_shared<ps::MemoryTransport>();
  if (!parts.transport->reliable() && parts.retry_interval.count() == 0)
    parts.retry_interval = std::chrono::milliseconds(200);
  if (!parts.executor)
    parts.executor = [threads = parts.threads_per_worker](const ps::Endpoint& who, const char* use) {
      return std::shared_ptr<Executor>(make_cpu_queue(cat(name_of(who.role), who.index, '.', use), threads));
    };
  if (!parts.store) parts.store = [](ps::ServerId) { return ps::make_null_store(); };
  if (!parts.all_reducer) {
    auto group = std::make_shared<std::vector<std::unique_ptr<Communicator>>>(
        make_thread_group(static_cast<int>(parts.coordinator.dealer.worker_batch.size())));
    parts.all_reducer = [group, executor = parts.executor](ps::WorkerId w) {
      TROUPE_CHECK((*group)[w], "worker ", w, " has left its group");
      return make_all_reducer(std::move((*group)[w]), executor({ps::Role::worker, w, 1}, "all_reduce"));
    };
  }
}

/// Makes the actors of the slots, again after a loss.
class Workshop {
 public:
  Workshop(caf::actor_system& system, ClusterParts parts) : system_(system), parts_(std::move(parts)) {}

  caf::actor make(const ps::Endpoint& who) {
    if (who.role == ps::Role::server) return caf::actor_cast<caf::actor>(spawn_server(system_, server(who)));
    return caf::actor_cast<caf::actor>(spawn_worker(system_, worker(who)));
  }

 private:
  ServerParts server(const ps::Endpoint& who) {
    ServerParts server;
    server.options.self = who;
    server.options.coordinator = parts_.coordinator.self;
    server.options.optimizer = parts_.optimizer;
    server.options.scale = parts_.immediate_scale;
    server.options.global_batch = parts_.coordinator.dealer.global_batch;
    server.options.needs_verdict = parts_.coordinator.clip_norm > 0 || parts_.coordinator.skip_non_finite;
    server.shard = std::make_unique<ps::Shard>(server.options, parts_.store(who.index), parts_.initial);
    if (parts_.record_event)
      server.shard->on_event([record = parts_.record_event, index = who.index](const ps::Shard::Event& event) {
        record(index, event);
      });
    if (parts_.replay && who.index < parts_.replay->events.size())
      server.shard->replay(parts_.replay->events[who.index]);
    server.transport = parts_.transport;
    server.retry_interval = parts_.retry_interval;
    return server;
  }

  WorkerParts worker(const ps::Endpoint& who) {
    const std::shared_ptr<GradientSource> source = parts_.source(who.index);
    check_layers(who, *source);
    ps::WorkerOptions options;
    options.self = who;
    options.coordinator = parts_.coordinator.self;
    options.clip_norm = parts_.coordinator.clip_norm;
    options.skip_non_finite = parts_.coordinator.skip_non_finite;
    WorkerParts worker{options, source, parts_.executor(who, "compute"), {}, {}, parts_.optimizer, parts_.transport,
                       ps::Sampler(parts_.coordinator.dealer.train_samples, parts_.seed, parts_.shuffle),
                       parts_.seed, {}, parts_.retry_interval};
    worker.make_all_reducer = [make = parts_.all_reducer, who] { return std::shared_ptr(make(who.index)); };
    worker.make_collective_queue = [make = parts_.executor, who] { return make(who, "collective"); };
    if (parts_.slow_down) worker.slow_down = parts_.slow_down(who.index);
    return worker;
  }

  void check_layers(const ps::Endpoint& who, const GradientSource& source) const {
    const auto& expected = parts_.coordinator.layers;
    TROUPE_CHECK(source.layers().size() == expected.size(), who, " has ", source.layers().size(), " layers, the run ",
                 expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      TROUPE_CHECK(source.layers()[i].name == expected[i].name && source.layers()[i].count == expected[i].count, who,
                   ": layer ", i, " is ", source.layers()[i].name, " with ", source.layers()[i].count,
                   " parameters, in the run ", expected[i].name, " with ", expected[i].count);
  }

  caf::actor_system& system_;
  ClusterParts parts_;
};

}  // namespace

Result<std::unique_ptr<Cluster>> Cluster::start(caf::actor_system& system, ClusterParts parts) {
  TROUPE_TRY(check(parts));
  auto core = ps::CoordinatorCore::make(parts.coordinator);
  if (!core) return tl::unexpected<Error>(core.error());
  fill_defaults(parts);
  if (parts.record_dealt) (*core)->on_dealt(parts.record_dealt);
  if (parts.replay) (*core)->replay(parts.replay->dealt);

  std::unique_ptr<Cluster> cluster(new Cluster);
  cluster->transport_ = parts.transport;
  cluster->watch_ = std::make_shared<Watch>(parts.observer);

  CoordinatorParts coordinator;
  coordinator.core = std::move(*core);
  coordinator.transport = parts.transport;
  coordinator.observer = cluster->watch_;
  coordinator.files = parts.executor(parts.coordinator.self, "checkpoint");
  coordinator.write_checkpoint = parts.write_checkpoint;
  coordinator.retry_interval = parts.retry_interval;

  NodeParts node;
  node.self = parts.coordinator.node;
  node.coordinator = parts.coordinator.self;
  node.transport = parts.transport;
  node.retry_interval = parts.retry_interval;
  node.spawn = [workshop = std::make_shared<Workshop>(system, std::move(parts))](const ps::Endpoint& who) {
    return workshop->make(who);
  };
  cluster->node_ = spawn_node(system, std::move(node));
  cluster->coordinator_ = spawn_coordinator(system, std::move(coordinator));
  caf::actor_cast<caf::actor>(cluster->coordinator_)
      ->attach_functor([watch = cluster->watch_](const caf::error& reason) { watch->coordinator_ended(reason); });
  return cluster;
}

Cluster::~Cluster() {
  caf::anon_send_exit(node_, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(coordinator_, caf::exit_reason::kill);
}

const ps::RunResult& Cluster::wait() { return watch_->wait(); }
const ps::RunResult* Cluster::result() const { return watch_->result(); }

void Cluster::stop() { caf::anon_send(coordinator_, std::make_shared<const Control>(StopRun{})); }

void Cluster::change_policies(std::vector<ps::UpdateRule> rules) {
  caf::anon_send(coordinator_, std::make_shared<const Control>(ChangePolicies{std::move(rules)}));
}

ps::Shard::InitialState initial_from(std::shared_ptr<GradientSource> source, const ps::Optimizer& optimizer,
                                     uint64_t seed) {
  const size_t states = optimizer.state_names().size();
  return [source, states, seed](const ps::Slice& slice) {
    const LayerSpec& layer = source->layers()[slice.layer];
    Tensor whole = Tensor::empty({layer.count});
    source->initialize(slice.layer, seed, whole.span<float>());
    ps::SliceState state;
    state.slice = slice.id;
    state.values = whole.view(slice.begin, {slice.count()}).clone();
    for (size_t i = 0; i < states; ++i) state.state.push_back(Tensor::zeros({slice.count()}));
    return state;
  };
}

}  // namespace troupe
