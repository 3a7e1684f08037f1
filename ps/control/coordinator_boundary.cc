#include <troupe/ps/control/coordinator_core.h>

#include <algorithm>

#include <troupe/ps/control/internal/coordinator_sums.h>
#include <troupe/ps/param/layer_names.h>
#include <troupe/ps/param/rows.h>

// What a run does between steps, and how it ends.
namespace troupe::ps {
namespace {

constexpr size_t kKnownCheckpoints = 16;  // newest ones, whichever of them can be read

void add_histogram(std::vector<int64_t>& sum, const std::vector<int64_t>& other) {
  sum.resize(std::max(sum.size(), other.size()));
  for (size_t i = 0; i < other.size(); ++i) sum[i] += other[i];
}

}  // namespace

void CoordinatorCore::plan_duties() {
  const bool final = finished_dealing();
  bool checkpoint = final && (options_.checkpoint_at_end || stopping_);
  bool evaluate = final && !stopping_;
  bool change = new_policies_.has_value() || resizing_;
  for (WorkerId w = 0; w < slots_.size() && !final; ++w) {
    if (slots_[w].absent) continue;
    const std::optional<Deal> deal = upcoming(w);
    if (!deal) continue;
    checkpoint = checkpoint || reached(*deal) >= next_checkpoint_;
    evaluate = evaluate || deal->range.epoch >= next_evaluation_;
    if (!options_.changes.empty() && reached(*deal) >= options_.changes.front().step) {
      new_policies_ = *resolve_policies(layer_names(options_.layers), options_.changes.front().rules);
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
  if (checkpoint) next_checkpoint_ = first_multiple_after(reached(), options_.checkpoint_every_steps);
  while (evaluate && !final && dealer_epoch() >= next_evaluation_) next_evaluation_ += options_.evaluate_every_epochs;
}

int64_t CoordinatorCore::dealer_epoch() const { return dealer_.state().epoch; }

void CoordinatorCore::next_duty(Effects& out) {
  duties_.pop_front();
  begin_duty(out);
}

void CoordinatorCore::begin_duty(Effects& out) {
  if (duties_.empty()) {
    for (Slot& slot : slots_) slot.parked = slot.absent, slot.since = slot.next_step;
    phase_ = Phase::running;
    return;
  }
  switch (duties_.front()) {
    case Duty::upload: {
      // Every worker of a stage has the same copies; the first replica's bring them home.
      uploading_ = stages();
      for (uint32_t stage = 0; stage < stages(); ++stage) {
        Work work;
        work.kind = Work::Kind::upload;
        work.step = slots_[stage].next_step;
        slots_[stage].special.push_back(work);
      }
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
      apply_change(out);
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
  evaluating_.clear();
  for (WorkerId w = 0; w < slots_.size(); ++w)
    if (!slots_[w].absent) evaluating_[w] = 1;
  const auto replicas = static_cast<int64_t>(evaluating_.size() / stages());
  const std::vector<int64_t> parts = equal_split(options_.test_samples, replicas);
  size_t i = 0;
  int64_t begin = 0;
  for (const auto& [w, answers] : evaluating_) {
    Work work;
    work.kind = Work::Kind::evaluate;
    work.step = slots_[w].next_step;
    work.range = {0, begin, parts[i / stages()]};
    if (++i % stages() == 0) begin += work.range.count;
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
  if (options_.loss_scaling.dynamic) request.loss_scale = loss_scale_;
  for (auto& [server, snapshot] : snapshots_)
    request.slices.insert(request.slices.end(), snapshot.slices.begin(), snapshot.slices.end());
  snapshots_.clear();
  std::sort(request.slices.begin(), request.slices.end(),
            [](const SliceState& a, const SliceState& b) { return a.slice < b.slice; });
  ++writing_;
  pieces_at_[request.step] = pieces_dealt();
  if (pieces_at_.size() > kKnownCheckpoints) pieces_at_.erase(pieces_at_.begin());
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
    out.events.push_back(status.error().message + "; training goes on");
  }
  if (phase_ == Phase::ended && writing_ == 0) out.finished = result_;  // it waited for that
  if (phase_ == Phase::duties && duties_.front() == Duty::await_writes && writing_ == 0) next_duty(out);
  settle(out);
  return finish(std::move(out));
}

// Everything stands still: policies and the sharing out of the batch change together, and a generation begins.
void CoordinatorCore::apply_change(Effects& out) {
  std::vector<Policy> policies = new_policies_ ? std::move(*new_policies_) : layout().policies;
  new_policies_.reset();
  for (size_t i = 0; i < policies.size(); ++i)
    if (policies[i] != layout().policies[i])
      out.events.push_back(cat("step ", furthest(), ": layer ", options_.layers[i].name, " goes from ",
                               describe(layout().policies[i]), " to ", describe(policies[i])));
  const DealerState state = dealer_.state();
  const Step step = furthest();  // whoever comes back may have been the furthest
  if (resizing_) apply_resize(out);
  note_immediate(policies);
  options_.dealer.lockstep = lockstep(policies);
  dealer_ = *Dealer::make(options_.dealer, state);
  membership_.layout = std::make_shared<const Layout>(make_layout(options_.layers, policies, options_.layout));
  membership_.rebase = step;
  for (Slot& slot : slots_) {
    slot.next_step = slot.since = step;
    slot.parked = slot.absent;
  }
  verdicts_.clear();
  scale_step_ = step;
  open_reports_.clear();
  unreported_samples_ = 0;
  duties_.clear();
  phase_ = Phase::joining;
  if (spawning_.empty()) invite(out);
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

// ---- the end --------------------------------------------------------------------------------------------------------

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
  auto policies = resolve_policies(layer_names(options_.layers), rules);
  if (!policies) return tl::unexpected<Error>(policies.error());
  Effects out;
  if (const Status possible = check_by_rows(options_.layers, *policies, options_.layout.stages); !possible)
    return tl::unexpected<Error>(possible.error());
  if (options_.loss_scaling.dynamic)
    if (const Status possible = check_scaled(*policies); !possible) return tl::unexpected<Error>(possible.error());
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
  result_.loss_scale = loss_scale_.value;
  if (!epoch_stats_.empty()) result_.last_epoch = epoch_stats_.rbegin()->second;
  send_servers(out, Finish{});
  finish_workers(out);
  if (!roster_.local())
    for (const Endpoint& node : roster_.ready()) send(out, node, Finish{});
  if (writing_ == 0) out.finished = result_;  // else a failed run's, once they are counted
}

void CoordinatorCore::finish_workers(Effects& out) const {
  for (WorkerId w = 0; w < slots_.size(); ++w)
    if (!slots_[w].absent) send(out, worker(w), Finish{});
  for (ServerId s = 0; s < replicas_.size(); ++s)
    if (replicas_[s].here) send(out, replica(s), Finish{});
}

// ---- saying it again ------------------------------------------------------------------------------------------------

CoordinatorCore::Effects CoordinatorCore::tick() {
  Effects out;
  Roster::Effects overdue;
  roster_.tick(overdue);
  take(out, std::move(overdue));
  if (phase_ == Phase::ended) {
    send_servers(out, Finish{});
    finish_workers(out);
    if (!roster_.local())
      for (const Endpoint& node : roster_.ready()) send(out, node, Finish{});
    return finish(std::move(out));
  }
  for (const Endpoint& who : unacknowledged_) send(out, who, membership_);
  for (const auto& [who, order] : spawning_)
    if (const auto home = roster_.home(who.role, who.index); home && !lacks_image(order)) send(out, *home, order);
  for (ServerId s = 0; s < replicas_.size(); ++s)
    if (const auto home = roster_.home(Role::replica, s); home && !replicas_[s].acknowledged)
      send(out, *home, Spawn{replica(s), std::nullopt, nullptr});
  order_replicas(out);
  if (!roster_.local()) rebalance(out);  // when a node came there may have been no time for it
  repeat_requests(out);
  judge_collectives(out);
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
