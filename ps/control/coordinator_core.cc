#include <troupe/ps/control/coordinator_core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

StepStats& operator+=(StepStats& sum, const StepStats& other) {
  sum.loss_sum += other.loss_sum;
  sum.correct += other.correct;
  sum.samples += other.samples;
  return sum;
}

void add_histogram(std::vector<int64_t>& sum, const std::vector<int64_t>& other) {
  sum.resize(std::max(sum.size(), other.size()));
  for (size_t i = 0; i < other.size(); ++i) sum[i] += other[i];
}

Step first_multiple_after(Step step, int64_t every) { return every > 0 ? (step / every + 1) * every : kNever; }

std::vector<std::string> names_of(const std::vector<LayerSpec>& layers) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : layers) names.push_back(layer.name);
  return names;
}

// No collective reaches beyond a process: there the servers add up, which gives the same numbers.
std::vector<Policy> over_processes(std::vector<Policy> policies) {
  for (Policy& policy : policies)
    if (policy.mode == Mode::all_reduce) policy = Policy{Mode::sync, 0};
  return policies;
}

RosterOptions roster_options(const CoordinatorOptions& options) {
  RosterOptions roster = options.roster;
  roster.local = options.node;
  roster.workers = static_cast<uint32_t>(options.dealer.worker_batch.size());
  roster.servers = options.layout.servers;
  roster.layers = options.layers;
  roster.train_samples = options.dealer.train_samples;
  roster.test_samples = options.test_samples;
  return roster;
}

bool lockstep(const std::vector<Policy>& policies) {
  return std::any_of(policies.begin(), policies.end(), [](const Policy& p) { return p.lockstep(); });
}

}  // namespace

Result<std::unique_ptr<CoordinatorCore>> CoordinatorCore::make(CoordinatorOptions options) {
  TROUPE_CHECK(options.policies.size() == options.layers.size(), options.policies.size(), " policies for ",
               options.layers.size(), " layers");
  if (options.layers.empty())
    return fail(ErrorKind::invalid, "the model has no layer with parameters: there is nothing to train");
  if (options.layout.servers == 0)
    return fail(ErrorKind::invalid, "parallel.servers is 0: a run needs at least one server");
  for (const PolicyChange& change : options.changes)
    if (auto policies = resolve_policies(names_of(options.layers), change.rules); !policies)
      return fail(cat("the policy change at step ", change.step), policies.error());
  if (const auto& resume = options.resume; resume && options.dealer.global_batch > 0) {
    // Changes that lie behind are how the run goes on.
    const Step done = (resume->epoch * resume->train_samples + resume->begin) / options.dealer.global_batch;
    for (auto& changes = options.changes; !changes.empty() && changes.front().step <= done;) {
      options.policies = *resolve_policies(names_of(options.layers), changes.front().rules);
      changes.erase(changes.begin());
    }
  }
  if (options.roster.nodes > 0) options.policies = over_processes(std::move(options.policies));
  options.dealer.lockstep = lockstep(options.policies);
  auto dealer = Dealer::make(options.dealer, options.resume);
  if (!dealer) return tl::unexpected<Error>(dealer.error());
  const Step start = options.resume ? options.resume->step : 0;
  return std::unique_ptr<CoordinatorCore>(new CoordinatorCore(std::move(options), std::move(*dealer), start));
}

CoordinatorCore::CoordinatorCore(CoordinatorOptions options, Dealer dealer, Step start)
    : options_(std::move(options)),
      dealer_(std::move(dealer)),
      roster_(roster_options(options_)),
      slots_(options_.dealer.worker_batch.size()) {
  membership_.workers.assign(slots_.size(), 1);
  membership_.servers.assign(options_.layout.servers, 1);
  membership_.layout =
      std::make_shared<const Layout>(make_layout(options_.layers, options_.policies, options_.layout));
  membership_.rebase = start;
  for (Slot& slot : slots_) slot.next_step = start;
  const Step dealt = dealer_.samples_dealt() / options_.dealer.global_batch;
  next_checkpoint_ = first_multiple_after(dealt, options_.checkpoint_every_steps);
  const int64_t epoch = options_.resume ? options_.resume->epoch : 0;
  next_evaluation_ = first_multiple_after(epoch, options_.evaluate_every_epochs);
  result_.steps = dealt;
  unreported_samples_ = dealer_.samples_dealt() % options_.dealer.global_batch;
  result_.workers.resize(slots_.size());
}

// ---- membership ------------------------------------------------------------------------------------------

CoordinatorCore::Effects CoordinatorCore::start() {
  Effects out;
  if (roster_.complete()) begin(out);
  return finish(std::move(out));
}

void CoordinatorCore::begin(Effects& out) {
  begun_ = true;
  roster_.place_all();
  for (ServerId s = 0; s < membership_.servers.size(); ++s) spawn(out, server(s));
  for (WorkerId w = 0; w < slots_.size(); ++w) spawn(out, worker(w));
}

void CoordinatorCore::spawn(Effects& out, const Endpoint& who, std::optional<Endpoint> takes_over) {
  const Spawn& order = spawning_[who] = Spawn{who, takes_over, nullptr};
  routes_changed_ = true;
  const auto home = roster_.home(who.role, who.index);
  if (home && roster_.knows(*home) && !roster_.leaving(*home)) {
    send(out, *home, order);
    return;
  }
  roster_.vacate(who.role, who.index);
  homeless_.insert(who);
  place_homeless(out);
}

void CoordinatorCore::place_homeless(Effects& out) {
  for (auto it = homeless_.begin(); it != homeless_.end();) {
    const Endpoint who = *it++;
    const auto home = roster_.place(who.role, who.index);
    if (!home) continue;
    homeless_.erase(who);
    routes_changed_ = true;
    if (!roster_.local()) out.events.push_back(cat(who, " starts on ", roster_.describe(*home)));
    send(out, *home, spawning_.at(who));
  }
}

std::vector<Routes::Place> CoordinatorCore::places() const {
  std::vector<Routes::Place> places;
  const auto add = [&](const Endpoint& who) {
    if (const auto home = roster_.home(who.role, who.index)) places.push_back({who, home->index});
  };
  for (WorkerId w = 0; w < slots_.size(); ++w) add(worker(w));
  for (ServerId s = 0; s < membership_.servers.size(); ++s) add(server(s));
  return places;
}

void CoordinatorCore::take(Effects& out, Roster::Effects effects) {
  for (auto& [to, body] : effects.say) send(out, to, std::move(body));
  for (std::string& event : effects.events) out.events.push_back(std::move(event));
  routes_changed_ = routes_changed_ || effects.changed || !effects.lost.empty();
  if (phase_ == Phase::ended) return;
  if (!effects.failure.empty()) return fail_run(out, std::move(effects.failure));
  for (const auto& [node, reason] : effects.lost) lost_node(out, node, reason);
  if (!begun_ && roster_.complete()) begin(out);
  if (begun_ && phase_ != Phase::ended) place_homeless(out);
}

void CoordinatorCore::lost_node(Effects& out, const Endpoint& node, const std::string& reason) {
  const std::string why = cat(roster_.describe(node), ": ", reason);
  const auto slots = roster_.slots_of(node);
  if (slots.empty()) out.events.push_back(cat("lost ", why));
  for (const auto& [role, index] : slots) {
    roster_.vacate(role, index);
    if (phase_ == Phase::ended) return;
    if (role == Role::worker) lost_worker(out, index, why);
    else lost_server(out, index, why);
  }
}

// Routes come first: whatever is sent may need them on its way back.
CoordinatorCore::Effects CoordinatorCore::finish(Effects out) {
  if (!routes_changed_ || roster_.local()) return out;
  routes_changed_ = false;
  out.routes = roster_.next_routes(places());
  Outbox first;
  for (const Endpoint& node : roster_.ready())
    first.push_back({options_.self, node, membership_.generation, *out.routes});
  out.send.insert(out.send.begin(), std::make_move_iterator(first.begin()), std::make_move_iterator(first.end()));
  return out;
}

void CoordinatorCore::invite(Effects& out) {
  ++membership_.generation;
  workers_invited_ = false;
  unacknowledged_.clear();
  for (ServerId s = 0; s < membership_.servers.size(); ++s) unacknowledged_.insert(server(s));
  send_servers(out, membership_);
}

void CoordinatorCore::invite_workers(Effects& out) {
  workers_invited_ = true;
  for (WorkerId w = 0; w < slots_.size(); ++w) {
    unacknowledged_.insert(worker(w));
    send(out, worker(w), membership_);
  }
}

void CoordinatorCore::on(Effects& out, const Envelope& envelope, const MembershipAck&) {
  if (envelope.generation != membership_.generation || unacknowledged_.erase(envelope.from) == 0) return;
  if (!unacknowledged_.empty()) return;
  if (!workers_invited_) {
    invite_workers(out);
    return;
  }
  membership_.rebase.reset();
  if (phase_ == Phase::joining) phase_ = Phase::running;
  repeat_requests(out);  // an actor that was replaced has not heard them
}

void CoordinatorCore::on(Effects& out, const Envelope& envelope, const Down& down) {
  send(out, envelope.from, DownAck{down.who});
  if (phase_ == Phase::ended || !current(down.who)) return;
  if (down.who.role == Role::worker) lost_worker(out, down.who.index, down.reason);
  else lost_server(out, down.who.index, down.reason);
}

void CoordinatorCore::lost_worker(Effects& out, WorkerId w, const std::string& reason) {
  const std::string what = cat("worker ", w, " ended: ", reason);
  if (layout().any(Mode::all_reduce)) {
    fail_run(out, what + "; its copy of the all_reduce layers cannot be replaced while the others wait in a "
                         "collective: resume from the last checkpoint (--resume)");
    return;
  }
  if (result_.worker_restarts >= options_.max_restarts) {
    fail_run(out, cat(what, "; ", result_.worker_restarts, " of elastic.max_restarts = ", options_.max_restarts,
                      " restarts are used"));
    return;
  }
  ++result_.worker_restarts;
  Slot& slot = slots_[w];
  dealer_.restart(w);
  for (auto& [number, work] : slot.outstanding)
    if (work.kind != Work::Kind::train) slot.special.push_back(work);
  outstanding_ -= static_cast<int64_t>(slot.outstanding.size());
  slot.outstanding.clear();
  slot.granted = 0;
  slot.parked = false;
  waiting_.erase(w);
  out.events.push_back(cat(what, "; starting it again (", result_.worker_restarts, " of ", options_.max_restarts, ")"));
  spawning_.erase(worker(w));
  homeless_.erase(worker(w));
  unacknowledged_.clear();  // a generation keeps its members: the next one is on its way
  ++membership_.workers[w];
  spawn(out, worker(w));
}

void CoordinatorCore::lost_server(Effects& out, ServerId s, const std::string& reason) {
  if (!options_.servers_recover) {
    fail_run(out, cat("server ", s, " ended: ", reason, "; what it held since the last checkpoint is gone: "
                      "resume from there (--resume)"));
    return;
  }
  ++result_.server_restarts;
  out.events.push_back(cat("server ", s, " ended: ", reason, "; starting it again from its store"));
  spawning_.erase(server(s));
  homeless_.erase(server(s));
  unacknowledged_.clear();
  ++membership_.servers[s];
  spawn(out, server(s));
}

void CoordinatorCore::on(Effects& out, const SpawnAck& ack) {
  if (spawning_.erase(ack.who) > 0 && spawning_.empty()) invite(out);
}

bool CoordinatorCore::current(const Endpoint& who) const {
  switch (who.role) {
    case Role::worker: return who.index < slots_.size() && worker(who.index) == who;
    case Role::server: return who.index < membership_.servers.size() && server(who.index) == who;
    case Role::node: return roster_.knows(who);
    default: return false;
  }
}

// ---- work ------------------------------------------------------------------------------------------------

CoordinatorCore::Effects CoordinatorCore::handle(const Envelope& envelope) {
  Effects out;
  if (answer_client(out, envelope)) return finish(std::move(out));
  if (envelope.from.role == Role::node && !roster_.local()) {
    Roster::Effects heard;
    roster_.handle(heard, envelope, places());
    take(out, std::move(heard));
  }
  if (!current(envelope.from)) {
    // A predecessor that does not know that it was replaced.
    if (std::holds_alternative<WorkRequest>(envelope.body)) send(out, envelope.from, Finish{});
    return finish(std::move(out));
  }
  if (const auto* m = std::get_if<Down>(&envelope.body)) {
    on(out, envelope, *m);
    return finish(std::move(out));
  }
  if (phase_ == Phase::ended) {
    if (envelope.from.role != Role::node || !roster_.local()) send(out, envelope.from, Finish{});
    return finish(std::move(out));
  }
  if (const auto* m = std::get_if<MembershipAck>(&envelope.body)) on(out, envelope, *m);
  else if (const auto* m = std::get_if<WorkRequest>(&envelope.body)) on(out, envelope, *m);
  else if (const auto* m = std::get_if<WorkDone>(&envelope.body)) on(out, envelope, *m);
  else if (const auto* m = std::get_if<Partial>(&envelope.body)) on(out, envelope, *m);
  else if (const auto* m = std::get_if<SnapshotReply>(&envelope.body)) on(out, envelope, *m);
  else if (const auto* m = std::get_if<StatsReply>(&envelope.body)) on(out, envelope, *m);
  else if (const auto* m = std::get_if<SpawnAck>(&envelope.body)) on(out, *m);
  else if (const auto* m = std::get_if<Fault>(&envelope.body)) fail_run(out, m->what);
  settle(out);
  return finish(std::move(out));
}

bool CoordinatorCore::answer_client(Effects& out, const Envelope& envelope) {
  if (envelope.from.role != Role::client) return false;
  if (std::holds_alternative<StopRequest>(envelope.body)) {
    request_stop(out);
  } else if (!std::holds_alternative<StatusRequest>(envelope.body)) {
    return true;
  }
  send(out, envelope.from, StatusReply{status_json(status())});
  return true;
}

RunStatus CoordinatorCore::status() const {
  RunStatus s;
  s.phase = !begun_                      ? "waiting for nodes"
            : phase_ == Phase::ended     ? "ended"
            : !spawning_.empty()         ? "waiting for actors"
            : phase_ == Phase::joining   ? "joining"
            : phase_ == Phase::duties    ? "at a step boundary"
            : stopping_                  ? "stopping"
                                         : "running";
  if (!begun_) s.waits_for = roster_.missing();
  for (const auto& [who, order] : spawning_) s.waits_for += cat(s.waits_for.empty() ? "" : ", ", who);
  s.generation = membership_.generation;
  s.step = result_.steps;
  s.total_steps = std::max(dealer_.total_steps(), s.step);
  s.epoch = dealer_epoch();
  s.samples = result_.samples;
  s.worker_restarts = result_.worker_restarts;
  s.server_restarts = result_.server_restarts;
  s.checkpoints = result_.checkpoints_written;
  roster_.describe_to(s);
  const auto node_of = [&](Role role, uint32_t index) {
    const auto home = roster_.home(role, index);
    return home ? static_cast<int64_t>(home->index) : int64_t{-1};
  };
  for (WorkerId w = 0; w < slots_.size(); ++w)
    s.workers.push_back({w, node_of(Role::worker, w), slots_[w].next_step, furthest() - slots_[w].next_step,
                         static_cast<int64_t>(slots_[w].outstanding.size())});
  for (ServerId v = 0; v < membership_.servers.size(); ++v)
    s.servers.push_back({v, node_of(Role::server, v), node_of(Role::replica, v)});
  return s;
}

// After every event: deals what can be dealt and notices a boundary.
void CoordinatorCore::settle(Effects& out) {
  // Whoever has not heard of a loss yet might ask the server that is no more one.
  if (!spawning_.empty() || !unacknowledged_.empty()) return;
  while (phase_ == Phase::running) {
    grant_all(out);
    if (!drained()) return;
    phase_ = Phase::duties;
    if (finished_dealing() && !stopping_) close_last_report(out);
    plan_duties();
    begin_duty(out);
  }
  if (phase_ == Phase::duties) grant_all(out);
}

void CoordinatorCore::on(Effects& out, const Envelope& envelope, const WorkRequest& request) {
  Slot& slot = slots_[envelope.from.index];
  if (request.number == slot.granted + 1) {
    waiting_.insert(envelope.from.index);
  } else if (auto found = slot.outstanding.find(request.number); found != slot.outstanding.end()) {
    send(out, envelope.from, found->second);
  }
}

void CoordinatorCore::grant_all(Effects& out) {
  // A grant under ssp may let parked workers take an idle step, and in a replay it is another's turn then: again
  // until nothing moves.
  bool moved = true;
  while (moved) {
    moved = false;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const WorkerId w = *it++;
      moved = grant(out, w) || moved;
    }
    moved = moved && (catches_up() || replay_);
  }
}

bool CoordinatorCore::grant(Effects& out, WorkerId w) {
  Slot& slot = slots_[w];
  std::optional<Work> work = next_work(w);
  if (!work) return false;
  waiting_.erase(w);
  work->number = ++slot.granted;
  slot.outstanding.emplace(work->number, *work);
  ++outstanding_;
  if (work->kind == Work::Kind::train) slot.next_step = std::max(slot.next_step, work->step + 1);
  send(out, worker(w), *work);
  return true;
}

std::optional<Work> CoordinatorCore::next_work(WorkerId w) {
  Slot& slot = slots_[w];
  if (!slot.special.empty()) {
    Work work = slot.special.front();
    slot.special.pop_front();
    return work;
  }
  if (phase_ != Phase::running) return {};
  const std::optional<Deal> next = upcoming(w);
  // What a lost worker had begun is completed first: some of its pushes may count already.
  slot.parked = !next || (!dealer_.repeats(w) && beyond_boundary(*next));
  // The end of a recorded run that was stopped: idle steps, though there is more to train on.
  const bool recorded_idle = replay_ && !replay_->empty() && replay_->front() == Dealt{w, true};
  const bool idle = recorded_idle || (slot.parked && catches_up() && slot.next_step < furthest());
  if (slot.parked && !idle) return {};
  if (replay_) {
    if (replay_->empty() || replay_->front() != Dealt{w, idle}) return {};  // not its turn
    replay_->pop_front();
  }
  if (dealt_observer_) dealt_observer_({w, idle});
  const Deal deal = idle ? dealer_.idle(w) : *dealer_.next(w);
  return Work{0, Work::Kind::train, deal.step, deal.schedule_step, deal.step_samples, deal.range};
}

std::optional<Deal> CoordinatorCore::upcoming(WorkerId w) const {
  if (replay_ && replay_->empty()) return {};
  return dealer_.peek(w);
}

bool CoordinatorCore::beyond_boundary(const Deal& deal) const {
  const bool change = !options_.changes.empty() && deal.schedule_step >= options_.changes.front().step;
  return deal.schedule_step >= next_checkpoint_ || deal.range.epoch >= next_evaluation_ || change ||
         ((stopping_ || new_policies_) && (!layout().lockstep() || deal.step >= stop_step_));
}

// Under ssp alone, a worker without work would hold the others back: its clock has to come along.
bool CoordinatorCore::catches_up() const { return !layout().lockstep() && layout().any(Mode::ssp); }

Step CoordinatorCore::furthest() const {
  Step furthest = 0;
  for (const Slot& slot : slots_) furthest = std::max(furthest, slot.next_step);
  return furthest;
}

bool CoordinatorCore::drained() const {
  if (outstanding_ > 0) return false;
  const Step furthest = this->furthest();
  return std::all_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return slot.parked && (!catches_up() || slot.next_step == furthest);
  });
}

bool CoordinatorCore::finished_dealing() const {
  if (stopping_) return true;
  for (WorkerId w = 0; w < slots_.size(); ++w)
    if (upcoming(w)) return false;
  return true;
}

void CoordinatorCore::on(Effects& out, const Envelope& envelope, const WorkDone& done) {
  const WorkerId w = envelope.from.index;
  Slot& slot = slots_[w];
  send(out, envelope.from, WorkDoneAck{done.number});
  auto found = slot.outstanding.find(done.number);
  if (found == slot.outstanding.end()) return;  // a repetition
  const Work work = found->second;
  slot.outstanding.erase(found);
  --outstanding_;
  switch (work.kind) {
    case Work::Kind::train:
      dealer_.completed(w, work.step);
      account(out, w, done, work);
      break;
    case Work::Kind::evaluate:
      result_.evaluation.stats += done.stats;
      if (--evaluating_ == 0) {
        out.evaluations.push_back(result_.evaluation);
        next_duty(out);
      }
      break;
    case Work::Kind::upload:
      next_duty(out);
      break;
  }
}

void CoordinatorCore::account(Effects& out, WorkerId w, const WorkDone& done, const Work& work) {
  WorkerReport& mine = result_.workers[w];
  ++mine.pieces;
  mine.samples += done.stats.samples;
  mine.compute_s += done.compute_s;
  mine.wait_s += done.wait_s;
  mine.pushed_bytes += done.pushed_bytes;
  mine.pulled_bytes += done.pulled_bytes;
  result_.samples += done.stats.samples;
  const bool idle = work.range.count == 0;  // of no epoch
  if (!idle) epoch_stats_[work.range.epoch] += done.stats;
  if (epoch_stats_.size() > 2) epoch_stats_.erase(epoch_stats_.begin());

  // Lockstep: the pieces of one step. Else: as many pieces as make a global batch.
  const bool by_step = layout().lockstep();
  OpenReport& open = open_reports_[by_step ? work.step : 0];
  StepReport& report = open.report;
  if (!idle) report.epoch = std::max(report.epoch, work.range.epoch);
  report.stats += done.stats;
  report.compute_s += done.compute_s;
  report.wait_s += done.wait_s;
  report.max_lag = std::max(report.max_lag, done.max_lag);
  if (!done.non_finite.empty()) {
    report.non_finite += cat(report.non_finite.empty() ? "" : "; ", "worker ", w, ": ", done.non_finite);
    out.events.push_back(cat("step ", work.step, ", worker ", w, ": the gradient of ", done.non_finite,
                             " holds NaN or Inf; the step is skipped"));
    if (!by_step) ++result_.skipped_steps;  // else the group's verdict counts it
  }
  if (by_step) {
    if (++open.pieces == static_cast<int64_t>(slots_.size())) close_report(out, work.step, work.step + 1);
    return;
  }
  unreported_samples_ += done.stats.samples;
  if (unreported_samples_ < options_.dealer.global_batch) return;
  unreported_samples_ -= options_.dealer.global_batch;
  close_report(out, 0, result_.steps + 1);
}

void CoordinatorCore::close_report(Effects& out, Step key, Step step) {
  auto open = open_reports_.extract(key);
  open.mapped().report.step = step;
  result_.steps = std::max(result_.steps, step);
  out.steps.push_back(std::move(open.mapped().report));
}

/// On demand the last samples need not make a whole batch.
void CoordinatorCore::close_last_report(Effects& out) {
  if (layout().lockstep() || unreported_samples_ == 0 || open_reports_.empty()) return;
  unreported_samples_ = 0;
  close_report(out, 0, result_.steps + 1);
}

// ---- step boundaries -------------------------------------------------------------------------------------------

void CoordinatorCore::plan_duties() {
  const bool final = finished_dealing();
  bool checkpoint = final && (options_.checkpoint_at_end || stopping_);
  bool evaluate = final && !stopping_;
  bool change = new_policies_.has_value();
  for (WorkerId w = 0; w < slots_.size() && !final; ++w) {
    const std::optional<Deal> deal = upcoming(w);
    if (!deal) continue;
    checkpoint = checkpoint || deal->schedule_step >= next_checkpoint_;
    evaluate = evaluate || deal->range.epoch >= next_evaluation_;
    if (!options_.changes.empty() && deal->schedule_step >= options_.changes.front().step) {
      new_policies_ = *resolve_policies(names_of(options_.layers), options_.changes.front().rules);
      if (!roster_.local()) new_policies_ = over_processes(std::move(*new_policies_));
      options_.changes.erase(options_.changes.begin());
      change = true;
    }
  }
  const bool home = layout().any(Mode::all_reduce) && (checkpoint || change);
  if (home) duties_.push_back(Duty::upload);
  if (evaluate && options_.test_samples > 0) duties_.push_back(Duty::evaluate);
  const bool verdicts = options_.clip_norm > 0 || options_.skip_non_finite;
  if (checkpoint) duties_.push_back(Duty::snapshot);
  else if (change && !final && verdicts) duties_.push_back(Duty::settle);
  if (final) {
    duties_.insert(duties_.end(), {Duty::await_writes, Duty::statistics, Duty::finish});
  } else if (change) {
    duties_.push_back(Duty::change);
  }
  const Step dealt = dealer_.samples_dealt() / options_.dealer.global_batch;
  if (checkpoint) next_checkpoint_ = first_multiple_after(dealt, options_.checkpoint_every_steps);
  while (evaluate && !final && dealer_epoch() >= next_evaluation_) next_evaluation_ += options_.evaluate_every_epochs;
}

int64_t CoordinatorCore::dealer_epoch() const { return dealer_.state().epoch; }

void CoordinatorCore::next_duty(Effects& out) {
  duties_.pop_front();
  begin_duty(out);
}

void CoordinatorCore::begin_duty(Effects& out) {
  if (duties_.empty()) {
    for (Slot& slot : slots_) slot.parked = false;
    phase_ = Phase::running;
    return;
  }
  switch (duties_.front()) {
    case Duty::upload: {
      Work work;
      work.kind = Work::Kind::upload;
      work.step = slots_[0].next_step;
      slots_[0].special.push_back(work);
      break;
    }
    case Duty::evaluate:
      start_evaluation();
      break;
    case Duty::settle:
    case Duty::snapshot:
      snapshots_.clear();
      send_servers(out, Snapshot{++round_});
      break;
    case Duty::change:
      apply_policy_change(out);
      break;
    case Duty::await_writes:
      if (writing_ == 0) next_duty(out);
      break;
    case Duty::statistics:
      statistics_.clear();
      send_servers(out, StatsRequest{++round_});
      break;
    case Duty::finish:
      end(out, stopping_ ? Outcome::interrupted : Outcome::completed);
      break;
  }
}

void CoordinatorCore::start_evaluation() {
  result_.evaluation = {};
  result_.evaluation.step = result_.steps;
  result_.evaluation.epoch = dealer_epoch();
  evaluating_ = static_cast<int64_t>(slots_.size());
  const std::vector<int64_t> parts = equal_split(options_.test_samples, evaluating_);
  int64_t begin = 0;
  for (WorkerId w = 0; w < slots_.size(); ++w) {
    Work work;
    work.kind = Work::Kind::evaluate;
    work.step = slots_[w].next_step;
    work.range = {0, begin, parts[w]};
    begin += parts[w];
    slots_[w].special.push_back(work);
  }
}

void CoordinatorCore::on(Effects& out, const Envelope& envelope, const SnapshotReply& reply) {
  if (!awaits_snapshots() || reply.round != round_) return;
  snapshots_[envelope.from.index] = reply;
  if (snapshots_.size() < membership_.servers.size()) return;
  if (duties_.front() == Duty::settle) {
    next_duty(out);
    return;
  }
  CheckpointRequest request;
  request.dealer = dealer_.state();
  request.step = request.dealer.step;
  request.layout = membership_.layout;
  request.evaluation = result_.evaluation;
  for (auto& [server, snapshot] : snapshots_)
    request.slices.insert(request.slices.end(), snapshot.slices.begin(), snapshot.slices.end());
  snapshots_.clear();
  std::sort(request.slices.begin(), request.slices.end(),
            [](const SliceState& a, const SliceState& b) { return a.slice < b.slice; });
  ++writing_;
  out.checkpoints.push_back(std::move(request));
  next_duty(out);
}

CoordinatorCore::Effects CoordinatorCore::checkpoint_written(const Status& status) {
  Effects out;
  --writing_;
  if (status) {
    ++result_.checkpoints_written;
  } else {
    ++result_.checkpoints_failed;
    out.events.push_back("a checkpoint was not written: " + status.error().message + "; training goes on");
  }
  if (phase_ == Phase::duties && duties_.front() == Duty::await_writes && writing_ == 0) next_duty(out);
  settle(out);
  return finish(std::move(out));
}

void CoordinatorCore::apply_policy_change(Effects& out) {
  const std::vector<Policy> policies = std::move(*new_policies_);
  new_policies_.reset();
  for (size_t i = 0; i < policies.size(); ++i)
    if (policies[i] != layout().policies[i])
      out.events.push_back(cat("step ", furthest(), ": layer ", options_.layers[i].name, " goes from ",
                               describe(layout().policies[i]), " to ", describe(policies[i])));
  options_.dealer.lockstep = lockstep(policies);
  dealer_ = *Dealer::make(options_.dealer, dealer_.state());
  membership_.layout = std::make_shared<const Layout>(make_layout(options_.layers, policies, options_.layout));
  const Step step = furthest();
  membership_.rebase = step;
  for (Slot& slot : slots_) {
    slot.next_step = step;
    slot.parked = false;
  }
  verdicts_.clear();
  open_reports_.clear();
  unreported_samples_ = 0;
  duties_.clear();
  phase_ = Phase::joining;
  invite(out);
}

void CoordinatorCore::on(Effects& out, const Envelope& envelope, const StatsReply& reply) {
  if (duties_.empty() || duties_.front() != Duty::statistics || reply.round != round_) return;
  statistics_[envelope.from.index] = reply;
  if (statistics_.size() < membership_.servers.size()) return;
  result_.layers.resize(options_.layers.size());
  for (const auto& [server, statistics] : statistics_) {
    result_.duplicates_dropped += statistics.duplicates_dropped;
    result_.refused += statistics.refused;
    for (const LayerCounters& part : statistics.layers) {
      LayerCounters& sum = result_.layers.at(part.layer);
      sum.layer = part.layer;
      sum.pushes += part.pushes;
      sum.updates += part.updates;
      sum.pushed_bytes += part.pushed_bytes;
      sum.pulled_bytes += part.pulled_bytes;
      add_histogram(sum.lag_histogram, part.lag_histogram);
      add_histogram(sum.delay_histogram, part.delay_histogram);
    }
  }
  next_duty(out);
}

// ---- the group's verdict -------------------------------------------------------------------------------------------

std::set<Endpoint> CoordinatorCore::voters() const {
  std::set<Endpoint> voters;
  for (const Parcel& parcel : layout().parcels)
    if (parcel.policy.aggregates()) voters.insert(server(parcel.server));
  if (layout().any(Mode::all_reduce)) voters.insert(worker(0));
  return voters;
}

void CoordinatorCore::on(Effects& out, const Envelope& envelope, const Partial& partial) {
  if (envelope.generation != membership_.generation) return;  // said again under this one, if it still matters
  if (auto known = verdicts_.find(partial.step); known != verdicts_.end()) {
    send(out, envelope.from, known->second);
    return;
  }
  if (!verdicts_.empty() && partial.step < verdicts_.begin()->first) return;  // everybody is long past it
  partials_[partial.step][envelope.from] = partial;
  decide(out, partial.step);
}

void CoordinatorCore::decide(Effects& out, Step step) {
  const auto& partials = partials_[step];
  const std::set<Endpoint> voters = this->voters();
  double squares = 0;
  std::string culprit;
  bool finite = true;
  for (const Endpoint& voter : voters) {
    auto found = partials.find(voter);
    if (found == partials.end()) return;
    squares += found->second.sum_of_squares;
    finite = finite && found->second.finite;
    if (culprit.empty()) culprit = found->second.culprit;
  }
  finite = finite && std::isfinite(squares);
  if (!finite && !options_.skip_non_finite) {
    fail_run(out, cat("step ", step, ": the gradient holds NaN or Inf (", culprit, ")"));
    return;
  }
  Verdict verdict{step, !finite, 1};
  const double norm = std::sqrt(squares);
  if (finite && options_.clip_norm > 0 && norm > options_.clip_norm) verdict.scale = options_.clip_norm / norm;
  result_.skipped_steps += verdict.skip;
  verdicts_[step] = verdict;
  partials_.erase(step);
  while (verdicts_.size() > 4) verdicts_.erase(verdicts_.begin());
  for (const Endpoint& voter : voters)
    if (voter.role == Role::server) send(out, voter, verdict);
  if (layout().any(Mode::all_reduce))
    for (WorkerId w = 0; w < slots_.size(); ++w) send(out, worker(w), verdict);
}

// ---- the end ---------------------------------------------------------------------------------------------------------

CoordinatorCore::Effects CoordinatorCore::stop() {
  Effects out;
  request_stop(out);
  return finish(std::move(out));
}

void CoordinatorCore::request_stop(Effects& out) {
  if (phase_ == Phase::ended || stopping_) return;
  if (!begun_) return fail_run(out, cat("stopped before it began: ", roster_.missing()));
  stopping_ = true;
  stop_step_ = furthest();
  settle(out);
}

Result<CoordinatorCore::Effects> CoordinatorCore::change_policies(const std::vector<UpdateRule>& rules) {
  auto policies = resolve_policies(names_of(options_.layers), rules);
  if (!policies) return tl::unexpected<Error>(policies.error());
  Effects out;
  if (phase_ == Phase::ended) return out;
  if (!roster_.local()) *policies = over_processes(std::move(*policies));
  new_policies_ = std::move(*policies);
  stop_step_ = furthest();
  settle(out);
  return finish(std::move(out));
}

CoordinatorCore::Effects CoordinatorCore::fail_run(std::string why) {
  Effects out;
  fail_run(out, std::move(why));
  return out;
}

void CoordinatorCore::fail_run(Effects& out, std::string why) {
  if (phase_ == Phase::ended) return;
  result_.failure = std::move(why);
  end(out, Outcome::failed);
}

void CoordinatorCore::end(Effects& out, Outcome outcome) {
  phase_ = Phase::ended;
  duties_.clear();
  result_.outcome = outcome;
  result_.layout = membership_.layout;
  if (!epoch_stats_.empty()) result_.last_epoch = epoch_stats_.rbegin()->second;
  send_servers(out, Finish{});
  for (WorkerId w = 0; w < slots_.size(); ++w) send(out, worker(w), Finish{});
  if (!roster_.local())
    for (const Endpoint& node : roster_.ready()) send(out, node, Finish{});
  out.finished = result_;
}

// ---- saying it again ----------------------------------------------------------------------------------------------------

CoordinatorCore::Effects CoordinatorCore::tick() {
  Effects out;
  Roster::Effects overdue;
  roster_.tick(overdue);
  take(out, std::move(overdue));
  if (phase_ == Phase::ended) {
    send_servers(out, Finish{});
    for (WorkerId w = 0; w < slots_.size(); ++w) send(out, worker(w), Finish{});
    if (!roster_.local())
      for (const Endpoint& node : roster_.ready()) send(out, node, Finish{});
    return finish(std::move(out));
  }
  for (const Endpoint& who : unacknowledged_) send(out, who, membership_);
  for (const auto& [who, order] : spawning_)
    if (const auto home = roster_.home(who.role, who.index)) send(out, *home, order);
  repeat_requests(out);
  settle(out);
  return finish(std::move(out));
}

void CoordinatorCore::repeat_requests(Effects& out) const {
  if (duties_.empty()) return;
  for (ServerId s = 0; s < membership_.servers.size(); ++s) {
    if (awaits_snapshots() && !snapshots_.count(s)) send(out, server(s), Snapshot{round_});
    if (duties_.front() == Duty::statistics && !statistics_.count(s)) send(out, server(s), StatsRequest{round_});
  }
}

void CoordinatorCore::send(Effects& out, Endpoint to, Message body) const {
  out.send.push_back({options_.self, to, membership_.generation, std::move(body)});
}

void CoordinatorCore::send_servers(Effects& out, const Message& body) const {
  for (ServerId s = 0; s < membership_.servers.size(); ++s) send(out, server(s), body);
}

void CoordinatorCore::replay(const std::vector<Dealt>& order) { replay_.emplace(order.begin(), order.end()); }

}  // namespace troupe::ps
