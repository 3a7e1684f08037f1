// The loop: one event at a time, and the end.
#include "simulation.h"

#include "world.h"

namespace troupe::sim {
namespace {

constexpr int64_t kPatienceUs = 20'000'000;  // of virtual time after the network is sound again
constexpr int64_t kMaxEvents = 400'000;

}  // namespace

Simulation::Simulation(const Scenario& scenario, size_t trace)
    : scenario_(scenario),
      run_seed_(scenario.seed + 1),
      oracle_(scenario, run_seed_),
      random_(derive_seed(scenario.seed, "schedule")),
      network_random_(derive_seed(scenario.seed, "network")),
      wire_(network_random_.bits64(), scenario.network),
      network_(std::make_shared<Network>(*this, kCoordinatorProcess)),
      host_groups_(agenda_, random_, oracle_, scenario, [this](const auto& text) { note(text); }),
      trace_(trace),
      seen_(std::variant_size_v<ps::Message>) {
  config_.set("scheduler.policy", caf::atom("testing"));
  wire_.on_delivery([this](const Envelope& e) { delivered(e); });
  for (ps::ServerId s = 0; s < scenario.servers(); ++s)
    stores_.push_back(ps::make_memory_store(scenario.events_between_images));
  for (size_t w = 0; w < scenario.workers(); ++w) current_.push_back(std::make_shared<bool>(true));
  synced_.resize(scenario.servers());
  if (scenario.over_hosts()) wire_.cut([this](const Envelope& e) { return is_cut(e); });
  for (const Mishap& m : scenario.mishaps)
    if (m.after == std::variant_npos) agenda_.at(m.at_us, [this, &m] { befall(m); });
  agenda_.at(scenario.heal_us, [this] { heal(); });
}

SimulationResult Simulation::run() {
  {
    caf::actor_system system(config_);
    system_ = &system;
    scheduler_ = &dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
    start_ = clock().current_time;
    auto cluster = Cluster::start(system, parts());
    if (!cluster) oracle_.violated("end", "the cluster does not start: " + cluster.error().message);
    if (cluster) {
      cluster_ = std::move(*cluster);
      for (size_t place = 0; place < first_hosts(); ++place)
        agenda_.at(static_cast<int64_t>(random_.below(20'000)), [this, place] { start_process(place); });
      live();
    }
    bury();
  }
  return {hash_,   events_,             agenda_.now_us, healed_ ? faulty_ : wire_.counts(),
          failed_, oracle_.violation(), checkpoint_,    text()};
}

void Simulation::live() {
  while (!oracle_.violation() && !cluster_->result()) {
    if (++events_ > kMaxEvents || agenda_.now_us > scenario_.heal_us + kPatienceUs) return hang();
    step();
  }
  if (oracle_.violation()) return;
  failed_ = cluster_->result()->outcome == ps::Outcome::failed;
  oracle_.finished(*cluster_->result(), stopped_, had_to_fail(cluster_->result()->failure));
  heal();
  const int64_t end_us = agenda_.now_us + kPatienceUs;
  while (!oracle_.violation() && remaining() && ++events_ < kMaxEvents && agenda_.now_us < end_us) step();
  if (const auto who = remaining(); who && !oracle_.violation())
    oracle_.violated("end", cat("the run is over, but ", *who, " goes on"));
}

void Simulation::heal() {
  if (!healed_) faulty_ = wire_.counts();
  healed_ = true;
  wire_.heal();
  cuts_.clear();
  if (cluster_ && !cluster_->result())
    for (size_t place = 0; place < known_hosts_; ++place) start_missing(place);
}

void Simulation::hang() {
  oracle_.violated("end", cat("the run does not end: ", events_, " events, ", agenda_.now_us, " us"));
  for (const auto& [who, handle] : attached_)
    note([&] { return cat(who, " last heard: ", last_heard_[who], "; last said: ", last_said_[who]); });
}

std::optional<Endpoint> Simulation::remaining() const {
  std::optional<Endpoint> newest;
  for (const auto& [who, handle] : attached_) {
    if (scenario_.over_hosts() ? who.role == Role::coordinator : who.role != Role::worker && who.role != Role::server)
      continue;
    const auto slot = newest_incarnation_.find({who.role, who.index});
    const bool others = slot != newest_incarnation_.end() && slot->second > who.incarnation;
    if (!replaced_.count(who) && !others) newest = who;
  }
  return newest;
}

void Simulation::step() {
  auto& jobs = scheduler_->jobs;
  const std::vector<size_t> runnable = runnable_jobs();
  // Nobody is kept waiting for as long as a lease, but who is paused.
  const bool patient = scenario_.over_hosts() && next_us() > agenda_.now_us + kRetryMs * 1000;
  if (!runnable.empty() && (!random_.chance(scenario_.impatience) || patient)) {
    std::swap(jobs.front(), jobs[runnable[random_.below(runnable.size())]]);
    scheduler_->try_run_once();
    return;
  }
  advance();
}

int64_t Simulation::to_us(caf::actor_clock::time_point t) const {
  return std::chrono::duration_cast<std::chrono::microseconds>(t - start_).count();
}

void Simulation::pass_to(int64_t us) {
  agenda_.now_us = std::max(agenda_.now_us, us);
  clock().current_time = std::max(clock().current_time, start_ + std::chrono::microseconds(agenda_.now_us));
  wire_.set_now_us(agenda_.now_us);
}

int64_t Simulation::next_timer_us() {
  return clock().has_pending_timeout() ? to_us(clock().schedule().begin()->first) : kNever;
}

int64_t Simulation::next_us() { return std::min({next_timer_us(), next_message_us(), next_task_us()}); }

void Simulation::advance() {
  const int64_t first = next_us();
  if (first == kNever) return;
  pass_to(first);
  if (first == next_task_us()) {
    agenda_.run_next();
  } else if (first == next_message_us()) {
    wire_.deliver_next();
  } else {
    clock().trigger_timeout();
  }
  for (; !due_.empty(); due_.pop_front()) befall(*due_.front());
}

void Simulation::bury() {
  cluster_.reset();
  for (const auto& process : processes_) {
    process->node = nullptr;
    process->handle = nullptr;
    process->paused_until_us = -1;
  }
  agenda_.clear();
  clock().cancel_all();
  // Whoever ever was: one whose process has ended, or who was replaced, need not have noticed.
  for (const auto& [id, address] : everybody_)
    if (const auto actor = caf::actor_cast<caf::strong_actor_ptr>(address))
      caf::anon_send_exit(actor, caf::exit_reason::kill);
  while (scheduler_->try_run_once()) {
  }
  clock().cancel_all();
  attached_.clear();
  agenda_.clear();
  while (scheduler_->try_run_once()) {
  }
}

SimulationResult simulate(const Scenario& scenario, size_t trace) {
  SimulationResult first = Simulation(scenario, trace).run();
  if (!scenario.resumes || first.violation || !first.checkpoint) return first;
  const Scenario resumed = make_resumed(scenario, *first.checkpoint);
  SimulationResult second = Simulation(resumed, trace).run();
  second.hash ^= first.hash * 31;
  second.events += first.events;
  second.virtual_us += first.virtual_us;
  second.messages = first.messages;
  if (trace > 0) second.trace = cat(first.trace, "resumed:\n", describe(resumed), second.trace);
  return second;
}

}  // namespace troupe::sim
