// Processes of a run over several: how they join, stand still and end.
#include <troupe/actors/workshop.h>

#include "world.h"

namespace troupe::sim {

Process* Simulation::process_in(size_t place) {
  for (auto it = processes_.rbegin(); it != processes_.rend(); ++it)
    if ((*it)->alive && (*it)->place == place) return it->get();
  return nullptr;
}

void Simulation::start_missing(size_t place) {
  if (!process_in(place) && !left_.count(place)) start_process(place);
}

void Simulation::start_process(size_t place) {
  if (!cluster_) return;
  known_hosts_ = std::max(known_hosts_, place + 1);
  Process& process = *processes_.emplace_back(std::make_unique<Process>());
  process.number = processes_.size();
  process.place = place;
  process.network = std::make_shared<Network>(*this, process.number);
  if (!cuts_.empty()) disturbed_.insert(process.number);
  note([&] { return cat("process ", process.number, " begins, in place ", place); });
  NodeParts node;
  node.self = {Role::node, ps::kUnassigned, static_cast<ps::Incarnation>(process.number)};
  node.coordinator = scenario_.coordinator.self;
  node.transport = process.network;
  node.retry_interval = std::chrono::milliseconds(kRetryMs);
  node.join = join_parts(process);
  process.node = spawn_node(*system_, std::move(node));
  process.handle = caf::actor_cast<caf::strong_actor_ptr>(process.node);
}

JoinParts Simulation::join_parts(Process& process) {
  JoinParts join;
  join.hello.name = cat("process ", process.number);
  join.hello.place = static_cast<int64_t>(process.place);
  if (scenario_.host_size > 0) join.hello.address.host = cat("host ", process.place / scenario_.host_size);
  join.hello.takes_workers = scenario_.hosts[process.place].takes_workers;
  join.hello.takes_servers = scenario_.hosts[process.place].takes_servers;
  join.welcomed = [](const ps::Welcome&) {};
  join.set_routes = [](const ps::Routes&) {};
  join.measure = [] { return ps::Heartbeat{}; };
  join.ended = [this, &process](Status how) {
    note([&] { return cat("process ", process.number, " ends: ", how ? "done" : how.error().message); });
    end_process(process);
    if (how && begun_) return;
    left_.erase(process.place);
    agenda_.at(agenda_.now_us + 50'000, [this, place = process.place] {
      if (!cluster_->result()) start_missing(place);
    });
  };
  join.prepare = [this, &process](const ps::Welcome&, std::function<void(Result<Prepared>)> done) {
    const int64_t ready_us = agenda_.now_us + static_cast<int64_t>(random_.below(20'000));
    agenda_.at(ready_us, [this, &process, done = std::move(done)] {
      if (process.alive) done(prepared(process));
    });
  };
  return join;
}

Prepared Simulation::prepared(const Process& process) {
  ClusterParts its = parts();
  its.transport = process.network;
  const ps::CoordinatorOptions& c = scenario_.coordinator;
  Prepared prepared;
  prepared.ready = {c.layers, c.dealer.train_samples, c.test_samples, ""};
  prepared.spawn = [workshop = std::make_shared<Workshop>(*system_, std::move(its))](const ps::Spawn& order,
                                                                                         ps::Generation since) {
    return workshop->make(order, since);
  };
  return prepared;
}

void Simulation::end_process(Process& process) {
  process.alive = false;
  process.paused_until_us = -1;
  for (const auto& [endpoint, home] : homes_) {
    const auto actor = home == process.number ? attached_.find(endpoint) : attached_.end();
    if (actor == attached_.end()) continue;
    caf::anon_send_exit(actor->second, caf::exit_reason::kill);
    wire_.detach(endpoint);
    attached_.erase(actor);
  }
}

void Simulation::pause(Process& process, int64_t for_us) {
  note([&] { return cat("process ", process.number, " stands still"); });
  disturbed_.insert(process.number);
  process.paused_until_us = agenda_.now_us + for_us;
  agenda_.at(process.paused_until_us, [this, &process] {
    note([&] { return cat("process ", process.number, " goes on"); });
  });
}

std::vector<size_t> Simulation::runnable_jobs() const {
  std::vector<size_t> runnable;
  for (size_t i = 0; i < scheduler_->jobs.size(); ++i) {
    const auto* actor = dynamic_cast<const caf::abstract_actor*>(scheduler_->jobs[i]);
    const auto owner = actor ? owners_.find(actor->id()) : owners_.end();
    const bool waits = owner != owners_.end() && owner->second != kCoordinatorProcess &&
                       processes_[owner->second - 1]->paused_until_us > agenda_.now_us;
    if (!waits) runnable.push_back(i);
  }
  return runnable;
}

}  // namespace troupe::sim
