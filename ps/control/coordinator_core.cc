#include <troupe/ps/control/coordinator_core.h>

#include <algorithm>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/control/internal/coordinator_sums.h>
#include <troupe/ps/param/layer_names.h>
#include <troupe/ps/param/rows.h>

namespace troupe::ps {
namespace {

constexpr double kLately = 0.1;  // the weight of the last piece of work in what pieces take lately

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

}  // namespace

Result<std::unique_ptr<CoordinatorCore>> CoordinatorCore::make(CoordinatorOptions options) {
  TROUPE_CHECK(options.policies.size() == options.layers.size(), options.policies.size(), " policies for ",
               options.layers.size(), " layers");
  if (options.layers.empty())
    return fail(ErrorKind::invalid, "the model has no layer with parameters: there is nothing to train");
  if (options.layout.servers == 0)
    return fail(ErrorKind::invalid, "parallel.servers is 0: a run needs at least one server");
  TROUPE_TRY(check_by_rows(options.layers, options.policies, options.layout.stages));
  for (const PolicyChange& change : options.changes) {
    const auto policies = resolve_policies(layer_names(options.layers), change.rules);
    const Status possible = policies ? check_by_rows(options.layers, *policies, options.layout.stages)
                                     : Status(tl::unexpected<Error>(policies.error()));
    if (!possible) return fail(cat("the policy change at step ", change.step), possible.error());
  }
  if (const auto& resume = options.resume; resume && options.dealer.global_batch > 0) {
    // Changes that lie behind are how the run goes on.
    const Step done = (resume->epoch * resume->train_samples + resume->begin) / options.dealer.global_batch;
    for (auto& changes = options.changes; !changes.empty() && changes.front().step <= done;) {
      options.policies = *resolve_policies(layer_names(options.layers), changes.front().rules);
      changes.erase(changes.begin());
    }
  }
  if (options.layout.stages > 1 && options.on_loss == OnLoss::shrink)
    return fail(ErrorKind::invalid, cat("elastic.on_loss = shrink and parallel.stages = ", options.layout.stages,
                                        ": a replica cannot go on without one of its stages; use restart or fail"));
  if (options.loss_scaling.dynamic) {
    if (!options.skip_non_finite)
      return fail(ErrorKind::invalid, "dynamic loss scaling skips steps that overflow, but skip_non_finite is off");
    TROUPE_TRY(check_scaled(options.policies));
    for (const PolicyChange& change : options.changes)
      TROUPE_TRY(check_scaled(*resolve_policies(layer_names(options.layers), change.rules)));
  }
  if (options.roster.nodes > 0) options.policies = over_processes(std::move(options.policies));
  options.dealer.lockstep = lockstep(options.policies);
  options.dealer.stages = options.layout.stages;
  auto dealer = Dealer::make(options.dealer, options.resume);
  if (!dealer) return tl::unexpected<Error>(dealer.error());
  const Step start = options.resume ? options.resume->step : 0;
  return std::unique_ptr<CoordinatorCore>(new CoordinatorCore(std::move(options), std::move(*dealer), start));
}

CoordinatorCore::CoordinatorCore(CoordinatorOptions options, Dealer dealer, Step start)
    : options_(std::move(options)),
      dealer_(std::move(dealer)),
      roster_(roster_options(options_)),
      slots_(options_.dealer.worker_batch.size()),
      loss_scale_(options_.resume_scale && options_.loss_scaling.dynamic ? *options_.resume_scale
                                                                         : LossScale{options_.loss_scaling.initial, 0}),
      scale_step_(start),
      scales_{{start, loss_scale_.value}} {
  membership_.workers.assign(slots_.size(), 1);
  membership_.servers.assign(options_.layout.servers, 1);
  membership_.layout =
      std::make_shared<const Layout>(make_layout(options_.layers, options_.policies, options_.layout));
  membership_.rebase = start;
  for (Slot& slot : slots_) slot.next_step = slot.since = start;
  note_immediate(options_.policies);
  pieces_at_[start] = pieces_dealt();
  next_checkpoint_ = first_multiple_after(reached(), options_.checkpoint_every_steps);
  const int64_t epoch = options_.resume ? options_.resume->epoch : 0;
  next_evaluation_ = first_multiple_after(epoch, options_.evaluate_every_epochs);
  result_.steps = dealer_.done() ? std::max(reached(), dealer_.total_steps()) : reached();
  if (!dealer_.done()) unreported_samples_ = dealer_.samples_dealt() % options_.dealer.global_batch;
  result_.workers.resize(slots_.size());
  last_worker_ = membership_.workers;
  full_batch_ = options_.dealer.worker_batch;
  if (!roster_.local()) {
    replicas_.resize(membership_.servers.size());
    membership_.replicas.assign(membership_.servers.size(), 0);
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
  else if (const auto* m = std::get_if<Synced>(&envelope.body); m && envelope.from.role == Role::replica)
    on(out, envelope, *m);
  else if (const auto* m = std::get_if<CollectiveId>(&envelope.body)) on(out, envelope, *m);
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

bool CoordinatorCore::only_asks(const Envelope& envelope) const {
  if (envelope.from.role != Role::client) return false;
  return !std::holds_alternative<StopRequest>(envelope.body) || stopping_ || phase_ == Phase::ended;
}

RunStatus CoordinatorCore::status(int64_t now_ms) const {
  RunStatus s;
  s.phase = !begun_                      ? "waiting for nodes"
            : phase_ == Phase::ended     ? "ended"
            : !spawning_.empty()         ? "waiting for actors"
            : phase_ == Phase::joining || !unacknowledged_.empty() ? "joining"
            : phase_ == Phase::duties    ? "at a step boundary"
            : stopping_                  ? "stopping"
                                         : "running";
  if (!begun_) s.waits_for = roster_.missing();
  for (const auto& [who, order] : spawning_) s.waits_for += cat(s.waits_for.empty() ? "" : ", ", who);
  for (const Endpoint& who : unacknowledged_) s.waits_for += cat(s.waits_for.empty() ? "" : ", ", who);
  s.generation = membership_.generation;
  s.step = result_.steps;
  s.total_steps = std::max(dealer_.total_steps(), s.step);
  s.epoch = dealer_epoch();
  s.samples = result_.samples;
  s.worker_restarts = result_.worker_restarts;
  s.server_restarts = result_.server_restarts;
  s.coordinator_restarts = recoveries();
  s.workers_dropped = result_.workers_dropped;
  s.checkpoints = result_.checkpoints_written;
  s.checkpoints_failed = result_.checkpoints_failed;
  s.skipped_steps = result_.skipped_steps;
  if (options_.connections) s.coordinator = options_.connections();
  s.lost = result_.lost;
  roster_.describe_to(s, now_ms);
  const auto node_of = [&](Role role, uint32_t index) {
    const auto home = roster_.home(role, index);
    return home ? static_cast<int64_t>(home->index) : int64_t{-1};
  };
  for (WorkerId w = 0; w < slots_.size(); ++w)
    s.workers.push_back({w, node_of(Role::worker, w), slots_[w].next_step, furthest() - slots_[w].next_step,
                         static_cast<int64_t>(slots_[w].outstanding.size()), slots_[w].compute_s, slots_[w].wait_s});
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
  if (!idle && !knows_scale(next->step)) return {};
  if (replay_) {
    if (replay_->empty() || replay_->front() != Dealt{w, idle}) return {};  // not its turn
    replay_->pop_front();
  }
  if (dealt_observer_) dealt_observer_({w, idle});
  const Deal deal = idle ? dealer_.idle(w) : *dealer_.next(w);
  return Work{0,          Work::Kind::train, deal.step, deal.schedule_step, deal.step_samples,
              deal.range, slot.since,        loss_scale_.value};
}

std::optional<Deal> CoordinatorCore::upcoming(WorkerId w) const {
  if (replay_ && replay_->empty()) return {};
  return dealer_.peek(w);
}

bool CoordinatorCore::beyond_boundary(const Deal& deal) const {
  const bool change = !options_.changes.empty() && reached(deal) >= options_.changes.front().step;
  return reached(deal) >= next_checkpoint_ || deal.range.epoch >= next_evaluation_ || change ||
         ((stopping_ || new_policies_ || resizing_) && (!layout().lockstep() || deal.step >= stop_step_));
}

// Under ssp alone, a worker without work would hold the others back: its clock has to come along.
bool CoordinatorCore::catches_up() const { return !layout().lockstep() && layout().any(Mode::ssp); }

Step CoordinatorCore::furthest() const {
  Step furthest = 0;
  for (const Slot& slot : slots_) furthest = std::max(furthest, slot.next_step);
  return furthest;
}

Step CoordinatorCore::reached() const {
  return layout().lockstep() ? furthest() : dealer_.samples_dealt() / options_.dealer.global_batch;
}

bool CoordinatorCore::drained() const {
  if (outstanding_ > 0) return false;
  const Step furthest = this->furthest();
  return std::all_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return slot.absent || (slot.parked && (!catches_up() || slot.next_step == furthest));
  });
}

bool CoordinatorCore::finished_dealing() const {
  if (stopping_) return true;
  for (WorkerId w = 0; w < slots_.size(); ++w)
    if (!slots_[w].absent && upcoming(w)) return false;
  return absent().empty() || !layout().lockstep() || dealer_.done() || !resizing_;
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
      if (slot.repeated.erase(work.step) == 0) account(out, w, done, work);
      heard_finite(out, work.step, done.non_finite.empty());
      break;
    case Work::Kind::evaluate:
      if (auto awaited = evaluating_.find(w); awaited == evaluating_.end()) break;  // repeated for another stage's sake
      else if (--awaited->second == 0) evaluating_.erase(awaited);
      result_.evaluation.stats += done.stats;
      if (evaluating_.empty()) {
        out.evaluations.push_back(result_.evaluation);
        next_duty(out);
      }
      break;
    case Work::Kind::upload:
      if (--uploading_ == 0) next_duty(out);
      break;
  }
}

void CoordinatorCore::account(Effects& out, WorkerId w, const WorkDone& done, const Work& work) {
  WorkerReport& mine = result_.workers[w];
  ++mine.pieces;
  mine.samples += done.stats.samples;
  mine.compute_s += done.compute_s;
  mine.wait_s += done.wait_s;
  const double weight = mine.pieces == 1 ? 1 : kLately;
  slots_[w].compute_s += weight * (done.compute_s - slots_[w].compute_s);
  slots_[w].wait_s += weight * (done.wait_s - slots_[w].wait_s);
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
  report.loss_scale = work.loss_scale;
  if (!done.non_finite.empty()) {
    report.non_finite += cat(report.non_finite.empty() ? "" : "; ", "worker ", w, ": ", done.non_finite);
    out.events.push_back(cat("step ", work.step, ", worker ", w, ": the gradient of ", done.non_finite,
                             " holds NaN or Inf; the step is skipped"));
    if (!by_step) ++result_.skipped_steps;  // else the group's verdict counts it
  }
  if (by_step) {
    open.done.insert(w);
    close_complete_reports(out);
    return;
  }
  unreported_samples_ += done.stats.samples;
  if (unreported_samples_ < options_.dealer.global_batch) return;
  unreported_samples_ -= options_.dealer.global_batch;
  // What the last piece of all brings beyond a batch makes no report of its own.
  const bool rest = unreported_samples_ > 0 && outstanding_ == 0 && !stopping_ && finished_dealing();
  if (rest) unreported_samples_ = 0;
  close_report(out, 0, result_.steps + (rest ? 2 : 1));
}

// Lockstep: those of steps that everybody who is there has done.
void CoordinatorCore::close_complete_reports(Effects& out) {
  if (!layout().lockstep()) return;
  const auto complete = [&](const OpenReport& open) {
    for (WorkerId w = 0; w < slots_.size(); ++w)
      if (!slots_[w].absent && open.done.count(w) == 0) return false;
    return true;
  };
  while (!open_reports_.empty() && complete(open_reports_.begin()->second)) {
    const Step step = open_reports_.begin()->first;
    close_report(out, step, step + 1);
  }
}

void CoordinatorCore::close_report(Effects& out, Step key, Step step) {
  auto open = open_reports_.extract(key);
  open.mapped().report.step = step;
  result_.steps = std::max(result_.steps, step);
  judge_stages(out);
  out.steps.push_back(std::move(open.mapped().report));
}

// When there is enough to judge by, and ever more seldom.
void CoordinatorCore::judge_stages(Effects& out) const {
  const Step step = result_.steps;
  if (!options_.judge_stages || stages() == 1 || step < 32 || (step & (step - 1)) != 0) return;
  std::vector<double> seconds(stages());
  for (WorkerId w = 0; w < result_.workers.size(); ++w) seconds[w % stages()] += result_.workers[w].compute_s;
  if (std::string said = options_.judge_stages(seconds); !said.empty())
    out.events.push_back(cat("step ", step, ": ", said));
}

/// On demand the last samples need not make a whole batch.
void CoordinatorCore::close_last_report(Effects& out) {
  if (layout().lockstep() || unreported_samples_ == 0 || open_reports_.empty()) return;
  unreported_samples_ = 0;
  close_report(out, 0, result_.steps + 1);
}

}  // namespace troupe::ps
