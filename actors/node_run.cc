#include <troupe/actors/node_run.h>

#include <condition_variable>
#include <mutex>
#include <optional>

#include <troupe/actors/combine_pushes.h>
#include <troupe/actors/node.h>
#include <troupe/actors/self.h>
#include <troupe/actors/system_config.h>
#include <troupe/actors/workshop.h>

namespace troupe {

struct NodeRun::Impl {
  SystemConfig config{2};
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Status> ended;
  std::shared_ptr<Executor> preparing{make_cpu_queue("prepare", 1)};
  caf::actor_system system{config};
  NodeActor node;

  void end(Status how) {
    std::lock_guard lock(mutex);
    if (!ended) ended = std::move(how);
    changed.notify_all();
  }

  JoinParts join(NodeRunParts& parts);
  Result<Prepared> prepare(const NodeRunParts& parts, const ps::Welcome& welcome);
};

Result<Prepared> NodeRun::Impl::prepare(const NodeRunParts& parts, const ps::Welcome& welcome) try {
  Result<ClusterParts> made = parts.prepare(welcome);
  if (!made) return tl::unexpected<Error>(made.error());
  made->transport =
      combine_pushes(system, parts.transport, made->coordinator, made->devices && made->coordinator.layout.stages == 1);
  made->spread = true;
  made->retry_interval = parts.retry_interval;
  const ps::CoordinatorOptions& c = made->coordinator;
  Prepared prepared;
  prepared.ready = {c.layers, c.dealer.train_samples, c.test_samples, parts.config_hash};
  prepared.spawn = [workshop = std::make_shared<Workshop>(system, std::move(*made))](const ps::Spawn& order,
                                                                                              ps::Generation since) {
    return workshop->make(order, since);
  };
  return prepared;
} catch (const std::exception& e) {
  return fail(ErrorKind::failed, e.what());
}

JoinParts NodeRun::Impl::join(NodeRunParts& parts) {
  JoinParts join;
  join.hello = parts.hello;
  join.welcomed = parts.welcomed;
  join.set_routes = parts.set_routes;
  join.measure = parts.measure;
  join.give_up = parts.give_up;
  join.ended = [this](Status how) { end(std::move(how)); };
  join.prepare = [this, parts](const ps::Welcome& welcome, std::function<void(Result<Prepared>)> done) {
    preparing->submit([this, parts, welcome, done = std::move(done)] { done(prepare(parts, welcome)); });
  };
  return join;
}

NodeRun::NodeRun(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

NodeRun::~NodeRun() {
  caf::anon_send_exit(impl_->node, caf::exit_reason::user_shutdown);
  {
    caf::scoped_actor self(impl_->system);
    self->wait_for(impl_->node);  // it gives `preparing` nothing more
  }
  impl_->node = nullptr;
  impl_->preparing.reset();  // before the system, which it prepares for
}

std::unique_ptr<NodeRun> NodeRun::join(NodeRunParts parts) {
  const FreeThread free;
  auto impl = std::make_unique<Impl>();
  NodeParts node;
  node.self = {ps::Role::node, ps::kUnassigned, parts.incarnation};
  node.transport = parts.transport;
  node.retry_interval = parts.retry_interval;
  node.join = impl->join(parts);
  impl->node = spawn_node(impl->system, std::move(node));
  caf::actor_cast<caf::actor>(impl->node)->attach_functor([raw = impl.get()](const caf::error& reason) {
    raw->end(fail(ErrorKind::failed, "the node ended: " + describe(reason)));
  });
  return std::unique_ptr<NodeRun>(new NodeRun(std::move(impl)));
}

Status NodeRun::wait() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [this] { return impl_->ended.has_value(); });
  return *impl_->ended;
}

void NodeRun::leave() { caf::anon_send(impl_->node, std::make_shared<const NodeControl>(LeaveRun{})); }

}  // namespace troupe
