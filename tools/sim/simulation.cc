#include "simulation.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>

#include <caf/scheduler/test_coordinator.hpp>

#include <troupe/actors/cluster.h>
#include <troupe/actors/node.h>
#include <troupe/actors/workshop.h>
#include <troupe/kernels/base/random.h>
#include <troupe/ps/control/replicated_store.h>

#include "agenda.h"
#include "gradient.h"
#include "message_text.h"
#include "oracle.h"

namespace troupe::sim {
namespace {

using ps::Endpoint;
using ps::Envelope;
using ps::Role;

constexpr int64_t kRetryMs = 20;
constexpr int64_t kPatienceUs = 20'000'000;  // of virtual time after the network is sound again
constexpr int64_t kMaxEvents = 400'000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr const char* kCrash = "simulated crash";
constexpr size_t kCoordinatorProcess = 0;  // the others count from 1

class Simulation;

/// The network as the actors of a process see it: what they say is heard by the oracle before it may be lost.
class Network final : public ps::Transport {
 public:
  Network(Simulation& simulation, size_t process) : simulation_(simulation), process_(process) {}
  void attach(const Endpoint& endpoint, Sink sink) override;
  void detach(const Endpoint& endpoint) override;
  void send(Envelope envelope) override;
  bool reliable() const override { return false; }

 private:
  Simulation& simulation_;
  size_t process_;
};

class WatchedStore final : public ps::ShardStore {
 public:
  WatchedStore(ps::ServerId server, std::shared_ptr<ShardStore> store, Oracle& oracle)
      : server_(server), store_(std::move(store)), oracle_(oracle) {}
  Status open(ps::Generation generation, const std::function<void(const Envelope&)>& replay) override {
    return store_->open(generation, replay);
  }
  Status append(ps::Generation generation, const Envelope& event) override {
    const Status status = store_->append(generation, event);
    if (status) oracle_.stored(server_, event);
    self_ = event.to;
    if (const auto* m = std::get_if<ps::Membership>(&event.body); m && server_ < m->replicas.size())
      replica_ = m->replicas[server_];
    return status;
  }
  bool wants_image() const override { return store_->wants_image(); }
  Status compact(ps::Generation generation, std::shared_ptr<const ps::ShardImage> image) override {
    const bool wanted = store_->wants_image();
    const Status status = store_->compact(generation, std::move(image));
    if (status && wanted && replica_ != 0) oracle_.imaged(self_, replica_);
    return status;
  }
  uint64_t appended() const override { return store_->appended(); }
  uint64_t safe() const override { return store_->safe(); }
  Status commit() override { return store_->commit(); }
  bool needs_commit() const override { return store_->needs_commit(); }
  ps::Outbox say(bool again) override { return store_->say(again); }
  void hear(const Envelope& from_replica) override { store_->hear(from_replica); }
  bool full() const override { return store_->full(); }

 private:
  ps::ServerId server_;
  Endpoint self_;
  ps::Incarnation replica_ = 0;
  std::shared_ptr<ShardStore> store_;
  Oracle& oracle_;
};

class Events final : public RunObserver {
 public:
  explicit Events(std::function<void(const std::string&)> hear) : hear_(std::move(hear)) {}
  void on_event(const std::string& event) override { hear_(event); }

 private:
  std::function<void(const std::string&)> hear_;
};

class SimulatedSource final : public GradientSource {
 public:
  SimulatedSource(const Scenario& scenario, ps::WorkerId worker, std::shared_ptr<bool> current, Oracle& oracle)
      : scenario_(scenario), worker_(worker), current_(std::move(current)), oracle_(oracle) {}

  const std::vector<LayerSpec>& layers() const override { return scenario_.coordinator.layers; }
  void initialize(size_t, uint64_t, std::span<float>) override {}

  StepStats backward(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready) override {
    oracle_.computes(worker_, batch, weights);
    const size_t bad = non_finite_layer(batch.seed, scenario_.non_finite, layers().size());
    for (size_t layer = layers().size(); layer-- > 0;) {
      const Tensor& seen = scenario_.reads_weights[layer] ? weights[layer] : Tensor{};
      const std::vector<float> values =
          gradient(batch.seed, batch.samples, static_cast<ps::LayerId>(layer), layers()[layer].count, seen);
      Tensor g = Tensor::from<float>(values, {layers()[layer].count});
      if (layer == bad) g.data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
      ready(layer, std::move(g));
    }
    return {0, 0, static_cast<int64_t>(batch.samples.size())};
  }

  StepStats evaluate(std::span<const uint32_t> samples, std::span<const Tensor> weights) override {
    if (*current_) oracle_.evaluates(worker_, weights);  // a zombie may look at what is long past
    return {0, 0, static_cast<int64_t>(samples.size())};
  }
  int64_t train_samples() const override { return scenario_.coordinator.dealer.train_samples; }
  int64_t test_samples() const override { return scenario_.coordinator.test_samples; }

 private:
  const Scenario& scenario_;
  ps::WorkerId worker_;
  std::shared_ptr<bool> current_;
  Oracle& oracle_;
};

/// A process of a run over several, in its place.
struct Process {
  size_t number = 0, place = 0;
  std::shared_ptr<Network> network;
  NodeActor node;
  caf::strong_actor_ptr handle;  ///< the node's
  bool alive = true;
  int64_t paused_until_us = -1;
};

/// What the coordinator was told, on a disk that outlives it. It crashes in the middle of a write when it is to.
class SimulatedJournal final : public ps::Journal {
 public:
  explicit SimulatedJournal(Simulation& simulation) : simulation_(simulation) {}
  Status append(const ps::CoordinatorInput& input) override;
  bool long_enough() const override;
  Status begin_anew(const ps::CoordinatorCore& core) override;
  Status discard() override { return {}; }

 private:
  Simulation& simulation_;
};

class Simulation {
 public:
  Simulation(const Scenario& scenario, size_t trace)
      : scenario_(scenario),
        run_seed_(scenario.seed + 1),
        oracle_(scenario, run_seed_),
        random_(derive_seed(scenario.seed, "schedule")),
        network_random_(derive_seed(scenario.seed, "network")),
        wire_(network_random_.bits64(), scenario.network),
        network_(std::make_shared<Network>(*this, kCoordinatorProcess)),
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

  SimulationResult run() {
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

  bool journal_is_long() const { return journal_.size() > 20'000; }
  void begin_journal_anew(const ps::CoordinatorCore& core) {
    journal_.clear();
    image_ = core.image();
  }
  void keep(const ps::CoordinatorInput& input) {
    const std::vector<std::byte> record = ps::journal_record(input);
    // A process that dies here has written all of it, a part or nothing.
    const size_t written = coordinator_crashes_us_ < 0 ? record.size()
                           : random_.chance(0.3)       ? record.size()
                                                       : random_.below(record.size());
    journal_.insert(journal_.end(), record.begin(), record.begin() + static_cast<std::ptrdiff_t>(written));
    if (coordinator_crashes_us_ < 0) return;
    note([&] { return cat("the coordinator crashes; ", written, " of ", record.size(), " bytes are in its journal"); });
    agenda_.at(agenda_.now_us + std::exchange(coordinator_crashes_us_, -1), [this] { recover_coordinator(); });
    ++coordinator_life_;
    throw std::runtime_error(kCrash);
  }

  // ---- what the network hears ------------------------------------------------------------------------------

  void attach(size_t process, const Endpoint& endpoint, ps::Transport::Sink sink) {
    const caf::strong_actor_ptr actor = actor_of(process, endpoint);
    if (!lives(process)) return caf::anon_send_exit(actor, caf::exit_reason::kill);
    if (attached_.count(endpoint) && homes_.at(endpoint) != process)
      oracle_.violated("superseded", cat(endpoint, " lives in two processes"));
    attached_[endpoint] = actor;
    homes_[endpoint] = process;
    owners_[actor->id()] = process;
    note([&] { return cat(endpoint, " begins"); });
    wire_.attach(endpoint, std::move(sink));
  }
  void detach(size_t process, const Endpoint& endpoint) {
    if (const auto home = homes_.find(endpoint); home == homes_.end() || home->second != process) return;
    if (attached_.erase(endpoint) == 0) return;
    note([&] { return cat(endpoint, " has ended"); });
    wire_.detach(endpoint);
  }
  void send(size_t process, Envelope envelope) {
    if (dead_.count(envelope.from) || !lives(process)) return;
    oracle_.said(envelope);
    if (scenario_.over_hosts()) heed(envelope);
    if (trace_ > 0) last_said_[envelope.from] = cat(agenda_.now_us, " us ", describe(envelope));
    if (!unreachable_.count(envelope.from) && !unreachable_.count(envelope.to)) wire_.send(std::move(envelope));
  }

 private:
  /// Whoever spawns an actor attaches it next: it is the newest job. A node is attached again under its number, a
  /// replica as the server that it becomes.
  caf::strong_actor_ptr actor_of(size_t process, const Endpoint& endpoint) const {
    if (endpoint.role == Role::node && process != kCoordinatorProcess && processes_[process - 1]->handle)
      return processes_[process - 1]->handle;
    if (const auto order = take_overs_.find(endpoint); order != take_overs_.end())
      if (const auto replica = attached_.find(order->second); replica != attached_.end()) return replica->second;
    return caf::actor_cast<caf::strong_actor_ptr>(&dynamic_cast<caf::scheduled_actor&>(*scheduler_->jobs.back()));
  }

  caf::detail::test_actor_clock& clock() { return scheduler_->clock(); }

  ClusterParts parts() {
    ClusterParts parts;
    parts.coordinator = scenario_.coordinator;
    parts.source = [this](ps::WorkerId w) {
      if (scenario_.over_hosts()) {
        *current_[w] = false;
        current_[w] = std::make_shared<bool>(true);
      }
      return std::make_unique<SimulatedSource>(scenario_, w, current_[w], oracle_);
    };
    ps::OptimizerOptions sgd;
    sgd.learning_rate = 1;
    parts.optimizer = *ps::make_optimizer(sgd);
    parts.immediate_scale = scenario_.immediate_scale;
    parts.initial = [this](const ps::Slice& slice) {
      ps::SliceState state;
      state.slice = slice.id;
      state.values = Tensor::empty({slice.count()});
      const float* first = scenario_.first_values[slice.layer].data();
      std::copy(first + slice.begin, first + slice.end, state.values.data<float>());
      return state;
    };
    parts.seed = run_seed_;
    parts.shuffle = scenario_.shuffle;
    parts.executor = [this](const Endpoint& who, const char*) {
      if (who.role == Role::coordinator) return checkpoint_writer();
      return std::shared_ptr<Executor>(make_simulated_executor(agenda_, random_, 200 << random_.below(6)));
    };
    parts.journal = std::make_shared<SimulatedJournal>(*this);
    parts.coordinator_ended = [](const std::string& why) { return why.find(kCrash) != std::string::npos; };
    parts.all_reducer = make_simulated_all_reduce(agenda_, random_, scenario_.workers(), 2'000);
    parts.store = [this](ps::ServerId s) {
      return std::make_shared<WatchedStore>(
          s, scenario_.over_hosts() ? ps::make_replicated_store({s}) : stores_[s], oracle_);
    };
    parts.write_checkpoint = [this](const ps::CheckpointRequest& request) -> Status {
      oracle_.checkpointed(request);
      checkpoint_ = request;
      return {};
    };
    parts.transport = network_;
    parts.observer = std::make_shared<Events>([this](const std::string& event) {
      note([&] { return "* " + event; });
    });
    parts.retry_interval = std::chrono::milliseconds(kRetryMs);
    return parts;
  }

  /// What a process has begun to write ends with it.
  std::shared_ptr<Executor> checkpoint_writer() {
    class Writer final : public Executor {
     public:
      Writer(std::unique_ptr<Executor> inner, const int64_t& life) : inner_(std::move(inner)), life_(life) {}
      void submit(std::function<void()> task) override {
        inner_->submit([&life = life_, mine = life_, task = std::move(task)] {
          if (life == mine) task();
        });
      }

     private:
      std::unique_ptr<Executor> inner_;
      const int64_t& life_;
    };
    return std::make_shared<Writer>(make_simulated_executor(agenda_, random_, 20'000), coordinator_life_);
  }

  void recover_coordinator() {
    if (!cluster_) return;
    auto core = image_.empty() ? ps::CoordinatorCore::make(scenario_.coordinator)
                               : ps::CoordinatorCore::restore(scenario_.coordinator, image_);
    if (!core) return oracle_.violated("end", "the coordinator cannot go on: " + core.error().message);
    ps::JournalReader reader(journal_);
    for (;;) {
      const auto input = reader.next();
      if (!input) return oracle_.violated("end", "the journal is damaged: " + input.error().message);
      if (!*input) break;
      if (const auto* heard = std::get_if<ps::CoordinatorInput::Heard>(&(*input)->what))
        if (const auto& e = *heard->envelope; std::holds_alternative<ps::WorkDone>(e.body) &&
                                             (*core)->membership().workers[e.from.index] == e.from.incarnation)
          oracle_.completed(e.from, std::get<ps::WorkDone>(e.body).number);
      (void)ps::tell(**core, **input);
    }
    journal_.resize(reader.consumed());
    note([&] { return cat("the coordinator goes on from ", journal_.size(), " bytes"); });
    cluster_->replace_coordinator(std::move(*core));
    if (stopped_) cluster_->stop();  // it may have died before it heard
  }

  // ---- the loop --------------------------------------------------------------------------------------------

  void live() {
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

  void heal() {
    if (!healed_) faulty_ = wire_.counts();
    healed_ = true;
    wire_.heal();
    cuts_.clear();
    if (cluster_ && !cluster_->result())
      for (size_t place = 0; place < known_hosts_; ++place) start_missing(place);
  }

  void hang() {
    oracle_.violated("end", cat("the run does not end: ", events_, " events, ", agenda_.now_us, " us"));
    for (const auto& [who, handle] : attached_)
      note([&] { return cat(who, " last heard: ", last_heard_[who], "; last said: ", last_said_[who]); });
  }

  /// Somebody of the last membership who has not ended.
  std::optional<Endpoint> remaining() const {
    std::optional<Endpoint> newest;
    for (const auto& [who, handle] : attached_) {
      if (scenario_.over_hosts() ? who.role == Role::coordinator : who.role != Role::worker && who.role != Role::server)
        continue;
      if (!replaced_.count(who)) newest = who;
    }
    return newest;
  }

  void step() {
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

  int64_t to_us(caf::actor_clock::time_point t) const {
    return std::chrono::duration_cast<std::chrono::microseconds>(t - start_).count();
  }
  void pass_to(int64_t us) {
    agenda_.now_us = std::max(agenda_.now_us, us);
    clock().current_time = std::max(clock().current_time, start_ + std::chrono::microseconds(agenda_.now_us));
    wire_.set_now_us(agenda_.now_us);
  }

  int64_t next_timer_us() { return clock().has_pending_timeout() ? to_us(clock().schedule().begin()->first) : kNever; }
  int64_t next_message_us() const { return wire_.empty() ? kNever : wire_.next_us(); }
  int64_t next_task_us() const { return agenda_.empty() ? kNever : agenda_.next_us(); }
  int64_t next_us() { return std::min({next_timer_us(), next_message_us(), next_task_us()}); }

  /// To the earliest of: a message arrives, a task ends, a timer.
  void advance() {
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

  void note_incarnations(const ps::Membership& m) {
    const auto note = [&](Role role, const std::vector<ps::Incarnation>& slots) {
      for (uint32_t i = 0; i < slots.size(); ++i) {
        ps::Incarnation& newest = newest_incarnation_[{role, i}];
        newest = std::max(newest, slots[i]);
        if (slots[i] == 0) empty_since_[{role, i}] = newest;
      }
    };
    note(Role::worker, m.workers);
    note(Role::server, m.servers);
    note(Role::replica, m.replicas);
  }
  /// It was told that the run is over, or somebody else fills its slot, or nobody does.
  bool may_end(const Endpoint& who) const {
    const std::pair slot{who.role, who.index};
    const auto newest = newest_incarnation_.find(slot);
    const auto empty = empty_since_.find(slot);
    return told_to_end_.count(who) > 0 || (newest != newest_incarnation_.end() && newest->second > who.incarnation) ||
           (empty != empty_since_.end() && empty->second >= who.incarnation);
  }

  void delivered(const Envelope& e) {
    hash_ = (hash_ ^ hash_of(e)) * 1099511628211;
    note([&] { return last_heard_[e.to] = describe(e); });
    const int64_t count = ++seen_[e.body.index()];
    for (const Mishap& m : scenario_.mishaps)
      if (m.after == e.body.index() && m.count == count) due_.push_back(&m);
    if (std::holds_alternative<ps::Finish>(e.body)) told_to_end_.insert(e.to);
    if (const auto* m = std::get_if<ps::Membership>(&e.body)) note_incarnations(*m);
    if (const auto* down = std::get_if<ps::Down>(&e.body);
        down && down->reason.find(kCrash) == std::string::npos && !may_end(down->who))
      oracle_.violated("end", cat(down->who, " ended of itself: ", down->reason));
    if (const auto* ack = std::get_if<ps::DownAck>(&e.body)) zombies_.erase(ack->who);
    if (const auto* synced = std::get_if<ps::Synced>(&e.body)) synced_[e.from.index] = {{synced->server, e.from}};
  }

  // ---- mishaps ---------------------------------------------------------------------------------------------

  void befall(const Mishap& m) {
    if (healed_ || !cluster_) return;
    switch (m.kind) {
      case Mishap::Kind::crash_worker: return crash(newest(Role::worker, m.slot));
      case Mishap::Kind::crash_server: return crash(newest(Role::server, m.slot));
      case Mishap::Kind::zombie_worker: return give_up(newest(Role::worker, m.slot));
      case Mishap::Kind::zombie_server: return give_up(newest(Role::server, m.slot));
      case Mishap::Kind::cut_off_worker: return cut_off(newest(Role::worker, m.slot), m.for_us);
      case Mishap::Kind::cut_off_server: return cut_off(newest(Role::server, m.slot), m.for_us);
      case Mishap::Kind::change_policies:
        note([] { return std::string("policies are to change"); });
        return cluster_->change_policies(m.rules);
      case Mishap::Kind::stop:
        note([] { return std::string("the run is to stop"); });
        stopped_ = true;
        return cluster_->stop();
      case Mishap::Kind::crash_coordinator:
        coordinator_crashes_us_ = m.for_us;
        return;
      case Mishap::Kind::crash_host:
        if (Process* victim = process_in(m.slot)) {
          note([&] { return cat("process ", victim->number, " crashes"); });
          disturbed_.insert(victim->number);
          end_process(*victim);
          agenda_.at(agenda_.now_us + m.for_us, [this, place = m.slot] { start_missing(place); });
        }
        return;
      case Mishap::Kind::replace_host:
        if (Process* victim = process_in(m.slot)) {
          disturbed_.insert(victim->number);
          start_process(m.slot);
        }
        return;
      case Mishap::Kind::pause_host:
        if (Process* victim = process_in(m.slot)) pause(*victim, m.for_us);
        return;
      case Mishap::Kind::leave_host:
        if (Process* leaver = process_in(m.slot)) {
          note([&] { return cat("process ", leaver->number, " wants to leave"); });
          disturbed_.insert(leaver->number);
          left_.insert(leaver->place);
          stopped_ = true;  // nobody may be left for what it holds
          caf::anon_send(leaver->node, std::make_shared<const NodeControl>(LeaveRun{}));
        }
        return;
      case Mishap::Kind::join_host:
        return start_process(m.slot);
      case Mishap::Kind::cut_hosts:
        return partition(m);
    }
  }

  std::optional<Endpoint> newest(Role role, uint32_t slot) const {
    std::optional<Endpoint> who;
    for (const auto& [endpoint, handle] : attached_)
      if (endpoint.role == role && endpoint.index == slot) who = endpoint;
    return who;
  }

  void replaced(const Endpoint& who) {
    replaced_.insert(who);
    if (who.role != Role::worker) return;
    *current_[who.index] = false;
    current_[who.index] = std::make_shared<bool>(true);
  }

  void crash(std::optional<Endpoint> who) {
    if (!who) return;
    note([&] { return cat(*who, " crashes"); });
    disturbed_.insert(homes_.at(*who));
    const caf::strong_actor_ptr victim = attached_.at(*who);
    detach(homes_.at(*who), *who);
    dead_.insert(*who);
    replaced(*who);
    const caf::error why = caf::make_error(caf::sec::runtime_error, std::string(kCrash));
    victim->enqueue(nullptr, caf::make_message_id(), caf::make_message(caf::exit_msg{caf::actor_addr{}, why}), nullptr);
  }

  void cut_off(std::optional<Endpoint> who, int64_t for_us) {
    if (!who) return;
    note([&] { return cat(*who, " is cut off"); });
    unreachable_.insert(*who);
    agenda_.at(agenda_.now_us + for_us, [this, who = *who] { unreachable_.erase(who); });
  }

  /// The coordinator hears that `who` has ended, until it says that it has heard; `who` lives on.
  void give_up(std::optional<Endpoint> who) {
    if (!who) return;
    note([&] { return cat(*who, " is given up"); });
    replaced(*who);
    zombies_.insert(*who);
    report_zombie(*who);
  }

  void report_zombie(const Endpoint& who) {
    if (!zombies_.count(who)) return;
    wire_.send({scenario_.coordinator.node, scenario_.coordinator.self, 0, ps::Down{who, kCrash}});
    agenda_.at(agenda_.now_us + kRetryMs * 1000, [this, who] { report_zombie(who); });
  }

  // ---- processes -------------------------------------------------------------------------------------------

  size_t first_hosts() const { return static_cast<size_t>(scenario_.coordinator.roster.nodes); }
  bool lives(size_t process) const { return process == kCoordinatorProcess || processes_[process - 1]->alive; }

  Process* process_in(size_t place) {
    for (auto it = processes_.rbegin(); it != processes_.rend(); ++it)
      if ((*it)->alive && (*it)->place == place) return it->get();
    return nullptr;
  }

  void start_missing(size_t place) {
    if (!process_in(place) && !left_.count(place)) start_process(place);
  }

  void start_process(size_t place) {
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

  JoinParts join_parts(Process& process) {
    JoinParts join;
    join.hello.name = cat("process ", process.number);
    join.hello.place = static_cast<int64_t>(process.place);
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

  Prepared prepared(const Process& process) {
    ClusterParts its = parts();
    its.transport = process.network;
    const ps::CoordinatorOptions& c = scenario_.coordinator;
    Prepared prepared;
    prepared.ready = {c.layers, c.dealer.train_samples, c.test_samples, ""};
    prepared.spawn = [workshop = std::make_shared<Workshop>(*system_, std::move(its))](const ps::Spawn& order) {
      return workshop->make(order);
    };
    return prepared;
  }

  /// All that lives in it ends, and says nothing more.
  void end_process(Process& process) {
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

  void pause(Process& process, int64_t for_us) {
    note([&] { return cat("process ", process.number, " stands still"); });
    disturbed_.insert(process.number);
    process.paused_until_us = agenda_.now_us + for_us;
    agenda_.at(process.paused_until_us, [this, &process] {
      note([&] { return cat("process ", process.number, " goes on"); });
    });
  }

  std::vector<size_t> runnable_jobs() const {
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

  void partition(const Mishap& m) {
    note([&] { return cat("the network is cut", m.one_way ? " one way" : ""); });
    cuts_.push_back(&m);
    agenda_.at(agenda_.now_us + m.for_us, [this, &m] { std::erase(cuts_, &m); });
    for (const auto& process : processes_) {
      disturbed_.insert(process->number);
      const bool apart = (m.group >> process->place & 1) != ((m.group & Mishap::kCoordinatorBit) != 0);
      const bool may_be_lost = scenario_.coordinator.replicas || !scenario_.hosts[process->place].takes_servers;
      if (process->alive && apart && may_be_lost) cluster_->link_lost(static_cast<uint32_t>(process->place));
    }
  }

  uint64_t bit_of(const Endpoint& who) const {
    const auto home = homes_.find(who);
    if (home == homes_.end() || home->second == kCoordinatorProcess) return Mishap::kCoordinatorBit;
    return uint64_t{1} << processes_[home->second - 1]->place;
  }
  bool is_cut(const Envelope& e) const {
    return std::ranges::any_of(cuts_, [&](const Mishap* m) {
      const bool from = m->group & bit_of(e.from), to = m->group & bit_of(e.to);
      return from != to && (from || !m->one_way);
    });
  }

  void heed(const Envelope& e) {
    begun_ = begun_ || std::holds_alternative<ps::Spawn>(e.body);
    if (const auto* order = std::get_if<ps::Spawn>(&e.body); order && order->takes_over)
      take_overs_[order->who] = *order->takes_over;
    const auto* m = std::get_if<ps::Membership>(&e.body);
    for (ps::WorkerId w = 0; m && w < m->workers.size(); ++w)
      if (m->workers[w] == 0) *current_[w] = false;
  }

  /// With its server's, the one copy that there was got lost; or every worker did.
  bool had_to_fail(const std::string& why) const {
    const auto says = [&](const char* text) { return why.find(text) != std::string::npos; };
    if (stopped_ && says("stopped before it began")) return true;
    if (!scenario_.over_hosts() || disturbed_.empty()) return false;
    if (says("elastic.min_workers")) return true;
    // Cut off and paused, one after the other.
    if (!scenario_.coordinator.replicas && says("it has not been heard of for")) return true;
    if (!says("had not caught up")) return false;
    for (ps::ServerId s = 0; s < scenario_.servers(); ++s)
      if (why.find(cat("server ", s, " ended")) != std::string::npos && synced_[s])
        return disturbed_.count(homes_.at(synced_[s]->second)) > 0 || synced_[s]->first != newest_server(s);
    return true;
  }
  Endpoint newest_server(ps::ServerId s) const {
    Endpoint newest{Role::server, s, 1};
    for (const auto& [server, replica] : take_overs_)
      if (server.index == s) newest = server;
    return newest;
  }

  // ---- the end ---------------------------------------------------------------------------------------------

  void bury() {
    cluster_.reset();
    for (const auto& process : processes_) {
      process->node = nullptr;
      process->handle = nullptr;
      process->paused_until_us = -1;
    }
    agenda_.clear();
    clock().cancel_all();
    std::vector<caf::strong_actor_ptr> actors;
    for (const auto& [who, handle] : attached_) actors.push_back(handle);
    for (const auto& actor : actors) caf::anon_send_exit(actor, caf::exit_reason::kill);
    actors.clear();
    while (scheduler_->try_run_once()) {
    }
    clock().cancel_all();
    attached_.clear();
    agenda_.clear();
    while (scheduler_->try_run_once()) {
    }
  }

  template <class F>
  void note(F&& text) {
    if (trace_ == 0) return;
    lines_.push_back(cat("  ", agenda_.now_us, " us  ", text()));
    if (lines_.size() > trace_) lines_.pop_front();
  }
  std::string text() const {
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
  }

  const Scenario& scenario_;
  uint64_t run_seed_;
  Oracle oracle_;
  Random random_, network_random_;
  Agenda agenda_;
  ps::SimulatedTransport wire_;
  ps::SimulatedTransport::Counts faulty_;  // until it was healed
  std::shared_ptr<Network> network_;
  std::vector<std::shared_ptr<ps::ShardStore>> stores_;
  std::vector<std::shared_ptr<bool>> current_;  // by worker slot: not replaced

  caf::actor_system_config config_;
  std::set<Endpoint> told_to_end_;
  std::map<std::pair<Role, uint32_t>, ps::Incarnation> newest_incarnation_, empty_since_;
  caf::scheduler::test_coordinator* scheduler_ = nullptr;
  caf::actor_clock::time_point start_;
  std::unique_ptr<Cluster> cluster_;
  std::map<Endpoint, caf::strong_actor_ptr> attached_;
  std::set<Endpoint> dead_, replaced_, zombies_, unreachable_;

  caf::actor_system* system_ = nullptr;
  std::vector<std::unique_ptr<Process>> processes_;  // by number, from 1
  bool begun_ = false;                               // somebody was told to start an actor
  size_t known_hosts_ = 0;                           // places that somebody was ever in
  std::set<size_t> left_, disturbed_;                // places; processes that may be taken for dead
  std::map<Endpoint, size_t> homes_;                 // process of everybody who was ever attached
  std::map<caf::actor_id, size_t> owners_;
  std::map<Endpoint, Endpoint> take_overs_;          // server, the replica that it was
  std::vector<std::optional<std::pair<Endpoint, Endpoint>>> synced_;  // by server: it, and the replica equal to it
  std::vector<const Mishap*> cuts_;

  std::optional<ps::CheckpointRequest> checkpoint_;
  size_t trace_;
  std::deque<std::string> lines_;
  std::map<Endpoint, std::string> last_heard_, last_said_;  // if traced
  std::vector<int64_t> seen_;                               // messages delivered, by kind
  std::deque<const Mishap*> due_;
  bool healed_ = false, stopped_ = false, failed_ = false;
  std::vector<std::byte> journal_, image_;  // what was told since the image was taken; empty: none
  int64_t coordinator_crashes_us_ = -1;  // at its next input, to be away for so long; negative: it does not
  int64_t coordinator_life_ = 0;
  int64_t events_ = 0;
  uint64_t hash_ = 1469598103934665603;
};

Status SimulatedJournal::append(const ps::CoordinatorInput& input) {
  simulation_.keep(input);
  return {};
}
bool SimulatedJournal::long_enough() const { return simulation_.journal_is_long(); }
Status SimulatedJournal::begin_anew(const ps::CoordinatorCore& core) {
  simulation_.begin_journal_anew(core);
  return {};
}
void Network::attach(const Endpoint& endpoint, Sink sink) {
  simulation_.attach(process_, endpoint, std::move(sink));
}
void Network::detach(const Endpoint& endpoint) { simulation_.detach(process_, endpoint); }
void Network::send(Envelope envelope) { simulation_.send(process_, std::move(envelope)); }

}  // namespace

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
