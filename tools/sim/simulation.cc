#include "simulation.h"

#include <deque>
#include <limits>

#include <caf/scheduler/test_coordinator.hpp>

#include <troupe/actors/cluster.h>
#include <troupe/kernels/base/random.h>

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
constexpr const char* kCrash = "simulated crash";

class Simulation;

/// The network as the actors see it: what they say is heard by the oracle before it may be lost.
class Network final : public ps::Transport {
 public:
  explicit Network(Simulation& simulation) : simulation_(simulation) {}
  void attach(const Endpoint& endpoint, Sink sink) override;
  void detach(const Endpoint& endpoint) override;
  void send(Envelope envelope) override;
  bool reliable() const override { return false; }

 private:
  Simulation& simulation_;
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
    return status;
  }
  bool wants_image() const override { return store_->wants_image(); }
  Status compact(ps::Generation generation, std::shared_ptr<const ps::ShardImage> image) override {
    return store_->compact(generation, std::move(image));
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
  std::shared_ptr<ShardStore> store_;
  Oracle& oracle_;
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
        network_(std::make_shared<Network>(*this)),
        trace_(trace),
        seen_(std::variant_size_v<ps::Message>) {
    config_.set("scheduler.policy", caf::atom("testing"));
    wire_.on_delivery([this](const Envelope& e) { delivered(e); });
    for (ps::ServerId s = 0; s < scenario.servers(); ++s)
      stores_.push_back(ps::make_memory_store(scenario.events_between_images));
    for (size_t w = 0; w < scenario.workers(); ++w) current_.push_back(std::make_shared<bool>(true));
    for (const Mishap& m : scenario.mishaps)
      if (m.after == std::variant_npos) agenda_.at(m.at_us, [this, &m] { befall(m); });
    agenda_.at(scenario.heal_us, [this] { heal(); });
  }

  SimulationResult run() {
    {
      caf::actor_system system(config_);
      scheduler_ = &dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
      start_ = clock().current_time;
      auto cluster = Cluster::start(system, parts());
      if (!cluster) oracle_.violated("end", "the cluster does not start: " + cluster.error().message);
      if (cluster) {
        cluster_ = std::move(*cluster);
        live();
      }
      bury();
    }
    return {hash_,       events_, agenda_.now_us, healed_ ? faulty_ : wire_.counts(), oracle_.violation(),
            checkpoint_, text()};
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

  void attach(const Endpoint& endpoint, ps::Transport::Sink sink) {
    // Whoever spawns an actor attaches it next: it is the newest job.
    attached_[endpoint] =
        caf::actor_cast<caf::strong_actor_ptr>(&dynamic_cast<caf::scheduled_actor&>(*scheduler_->jobs.back()));
    note([&] { return cat(endpoint, " begins"); });
    wire_.attach(endpoint, std::move(sink));
  }
  void detach(const Endpoint& endpoint) {
    if (attached_.erase(endpoint) == 0) return;
    note([&] { return cat(endpoint, " has ended"); });
    wire_.detach(endpoint);
  }
  void send(Envelope envelope) {
    if (dead_.count(envelope.from)) return;
    oracle_.said(envelope);
    if (trace_ > 0) last_said_[envelope.from] = cat(agenda_.now_us, " us ", describe(envelope));
    if (!unreachable_.count(envelope.from) && !unreachable_.count(envelope.to)) wire_.send(std::move(envelope));
  }

 private:
  caf::detail::test_actor_clock& clock() { return scheduler_->clock(); }

  ClusterParts parts() {
    ClusterParts parts;
    parts.coordinator = scenario_.coordinator;
    parts.source = [this](ps::WorkerId w) {
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
    parts.store = [this](ps::ServerId s) { return std::make_shared<WatchedStore>(s, stores_[s], oracle_); };
    parts.write_checkpoint = [this](const ps::CheckpointRequest& request) -> Status {
      oracle_.checkpointed(request);
      checkpoint_ = request;
      return {};
    };
    parts.transport = network_;
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
    ps::Outbox unsaid;  // what followed from the last input
    for (;;) {
      const auto input = reader.next();
      if (!input) return oracle_.violated("end", "the journal is damaged: " + input.error().message);
      if (!*input) break;
      if (auto effects = ps::tell(**core, **input)) unsaid = std::move(effects->send);
    }
    for (const Envelope& e : unsaid)  // the coordinator knows from its journal that the work is done
      if (std::holds_alternative<ps::WorkDoneAck>(e.body)) oracle_.said(e);
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
    oracle_.finished(*cluster_->result(), stopped_);
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
      if (who.role != Role::worker && who.role != Role::server) continue;
      if (!replaced_.count(who)) newest = who;
    }
    return newest;
  }

  void step() {
    auto& jobs = scheduler_->jobs;
    if (!jobs.empty() && !random_.chance(scenario_.impatience)) {
      std::swap(jobs.front(), jobs[random_.below(jobs.size())]);
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

  /// To the earliest of: a message arrives, a task ends, a timer.
  void advance() {
    constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
    const int64_t timer = clock().has_pending_timeout() ? to_us(clock().schedule().begin()->first) : kNever;
    const int64_t message = wire_.empty() ? kNever : wire_.next_us();
    const int64_t task = agenda_.empty() ? kNever : agenda_.next_us();
    const int64_t first = std::min({timer, message, task});
    if (first == kNever) return;
    pass_to(first);
    if (first == task) {
      agenda_.run_next();
    } else if (first == message) {
      wire_.deliver_next();
    } else {
      clock().trigger_timeout();
    }
    for (; !due_.empty(); due_.pop_front()) befall(*due_.front());
  }

  void delivered(const Envelope& e) {
    hash_ = (hash_ ^ hash_of(e)) * 1099511628211;
    note([&] { return last_heard_[e.to] = describe(e); });
    const int64_t count = ++seen_[e.body.index()];
    for (const Mishap& m : scenario_.mishaps)
      if (m.after == e.body.index() && m.count == count) due_.push_back(&m);
    if (const auto* down = std::get_if<ps::Down>(&e.body); down && down->reason.find(kCrash) == std::string::npos)
      oracle_.violated("end", cat(down->who, " ended of itself: ", down->reason));
    if (const auto* ack = std::get_if<ps::DownAck>(&e.body)) zombies_.erase(ack->who);
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
    const caf::strong_actor_ptr victim = attached_.at(*who);
    detach(*who);
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

  // ---- the end ---------------------------------------------------------------------------------------------

  void bury() {
    cluster_.reset();
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
  caf::scheduler::test_coordinator* scheduler_ = nullptr;
  caf::actor_clock::time_point start_;
  std::unique_ptr<Cluster> cluster_;
  std::map<Endpoint, caf::strong_actor_ptr> attached_;
  std::set<Endpoint> dead_, replaced_, zombies_, unreachable_;

  std::optional<ps::CheckpointRequest> checkpoint_;
  size_t trace_;
  std::deque<std::string> lines_;
  std::map<Endpoint, std::string> last_heard_, last_said_;  // if traced
  std::vector<int64_t> seen_;                               // messages delivered, by kind
  std::deque<const Mishap*> due_;
  bool healed_ = false, stopped_ = false;
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
void Network::attach(const Endpoint& endpoint, Sink sink) { simulation_.attach(endpoint, std::move(sink)); }
void Network::detach(const Endpoint& endpoint) { simulation_.detach(endpoint); }
void Network::send(Envelope envelope) { simulation_.send(std::move(envelope)); }

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
