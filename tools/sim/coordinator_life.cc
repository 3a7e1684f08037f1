// What a coordinator is made of, and how another goes on from its journal.
#include <algorithm>

#include <troupe/ps/control/replicated_store.h>

#include "simulated_source.h"
#include "watched_store.h"
#include "world.h"

namespace troupe::sim {
namespace {

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

class Events final : public RunObserver {
 public:
  explicit Events(std::function<void(const std::string&)> hear) : hear_(std::move(hear)) {}
  void on_event(const std::string& event) override { hear_(event); }

 private:
  std::function<void(const std::string&)> hear_;
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

}  // namespace

ClusterParts Simulation::parts() {
  ClusterParts parts;
  parts.coordinator = scenario_.coordinator;
  parts.source = [this](ps::WorkerId w) {
    if (scenario_.over_hosts()) {
      *current_[w] = false;
      current_[w] = std::make_shared<bool>(true);
    }
    return make_simulated_source(scenario_, w, current_[w], oracle_);
  };
  // A worker that is a stage makes its source first, and its stage's next.
  parts.stage_source = [this](ps::WorkerId w) { return make_simulated_stage(scenario_, w, current_[w], oracle_); };
  parts.stage = scenario_.stage;
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
  if (scenario_.host_size > 0) {
    parts.spread = parts.wants_devices = true;
    parts.bucket_bytes = 200;
    parts.host_reducer = [this](const Endpoint& who) { return host_groups_.member(who); };
  }
  parts.all_reducer = make_simulated_all_reduce(agenda_, random_, scenario_.workers(), 2'000);
  parts.store = [this](ps::ServerId s) {
    return make_watched_store(
        s, scenario_.replicates() ? ps::make_replicated_store({s}) : stores_[s], oracle_);
  };
  parts.write_checkpoint = [this](const ps::CheckpointRequest& request) -> Status {
    oracle_.checkpointed(request);
    checkpoint_ = request;
    return {};
  };
  parts.read_checkpoint = [this, initial = parts.initial](const ps::ReloadRequest& request) -> Result<ps::Reload> {
    const auto& resume = scenario_.coordinator.resume;
    ps::Reload reload = first_parameters(request, initial, resume ? resume->step : 0);
    if (!checkpoint_) return reload;
    reload.folder = "newest";
    reload.step = checkpoint_->dealer.step;
    for (ps::SliceState& state : reload.slices)
      for (const ps::SliceState& saved : checkpoint_->slices)
        if (checkpoint_->layout->slices[saved.slice] == request.layout->slices[state.slice])
          state.values = saved.values.clone(), state.updates = saved.updates;
    return reload;
  };
  parts.transport = network_;
  parts.observer = std::make_shared<Events>([this](const std::string& event) {
    note([&] { return "* " + event; });
  });
  parts.retry_interval = std::chrono::milliseconds(kRetryMs);
  return parts;
}

std::shared_ptr<Executor> Simulation::checkpoint_writer() {
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

void Simulation::begin_journal_anew(const ps::CoordinatorCore& core) {
  journal_.clear();
  image_ = core.image();
}

void Simulation::keep(const ps::CoordinatorInput& input) {
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

std::unique_ptr<ps::CoordinatorCore> Simulation::core_of_journal(ps::CoordinatorOptions options) {
  auto core = image_.empty() ? ps::CoordinatorCore::make(options) : ps::CoordinatorCore::restore(options, image_);
  if (!core) oracle_.violated("end", "the coordinator cannot go on: " + core.error().message);
  if (!core) return nullptr;
  ps::JournalReader reader(journal_);
  for (;;) {
    const auto input = reader.next();
    if (!input) oracle_.violated("end", "the journal is damaged: " + input.error().message);
    if (!input || !*input) break;
    if (const auto* heard = std::get_if<ps::CoordinatorInput::Heard>(&(*input)->what))
      if (const auto& e = *heard->envelope; std::holds_alternative<ps::WorkDone>(e.body) &&
                                           (*core)->membership().workers[e.from.index] == e.from.incarnation)
        oracle_.completed(e.from, std::get<ps::WorkDone>(e.body).number);
    (void)ps::tell(**core, **input);
  }
  journal_.resize(reader.consumed());
  return std::move(*core);
}

void Simulation::recover_coordinator() {
  if (!cluster_) return;
  auto core = core_of_journal(scenario_.coordinator);
  if (!core) return;
  if (old_rests_us_ > 0) leave_old_coordinator();
  note([&] { return cat("the coordinator goes on from ", journal_.size(), " bytes"); });
  cluster_->replace_coordinator(std::move(core));
  if (stopped_) cluster_->stop();  // it may have died before it heard
}

// ---- the one before, which only stood still --------------------------------------------------------------------

void Simulation::leave_old_coordinator() {
  ps::CoordinatorOptions options = scenario_.coordinator;
  options.self = kOldCoordinator;
  auto core = core_of_journal(options);
  if (!core) return;
  auto old = std::make_shared<OldCoordinator>();
  old->stopped_us = agenda_.now_us;
  old->stopped_ms = core->now_ms();
  old->core = std::move(core);
  old_.push_back(old);
  agenda_.at(agenda_.now_us + std::exchange(old_rests_us_, 0), [this, old] { wake(old); });
}

bool Simulation::knows_of_successor(const Endpoint& who, const OldCoordinator& old) const {
  const auto heard = heard_.find(who);
  return heard != heard_.end() && heard->second > old.core->membership().generation;
}

/// Not before all who are there have heard of its successor. To whoever has not, it is the coordinator: that there are
/// not two is what a run folder's lock sees to (run_lock.h), and generations can only fence it from those who know.
void Simulation::wake(const std::shared_ptr<OldCoordinator>& old) {
  if (!cluster_) return;
  const bool known = std::ranges::all_of(attached_, [&](const auto& one) {
    return one.first.role == Role::coordinator || knows_of_successor(one.first, *old);
  });
  if (!known) return agenda_.at(agenda_.now_us + kRetryMs * 1000, [this, old] { wake(old); });
  note([] { return std::string("the old coordinator goes on"); });
  go_on(old);
}

/// It has heard all that was said to a coordinator in the meantime, and takes itself for the one. Processes that come
/// now hear nothing of it before they have heard of its successor.
void Simulation::go_on(const std::shared_ptr<OldCoordinator>& old) {
  if (!cluster_) return;
  const auto tell = [&](ps::CoordinatorInput::What what) {
    auto effects = ps::tell(*old->core, {old->stopped_ms + (agenda_.now_us - old->stopped_us) / 1000, std::move(what)});
    for (Envelope& e : effects->send)
      if (knows_of_successor(e.to, *old)) wire_.send(std::move(e));
  };
  for (const ps::EnvelopePtr& e : std::exchange(old->mail, {})) tell(ps::CoordinatorInput::Heard{e});
  tell(ps::CoordinatorInput::Tick{});
  if (--old->ticks <= 0) return void(std::erase(old_, old));
  agenda_.at(agenda_.now_us + kRetryMs * 1000, [this, old] { go_on(old); });
}

}  // namespace troupe::sim
