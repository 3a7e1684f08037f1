#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/param/combined_push.h>

#include "gradient.h"
#include "row_values.h"

namespace troupe::sim {
namespace {

using ps::Mode;

uint64_t hash_of(std::span<const float> values) {
  uint64_t hash = 1469598103934665603;
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 1099511628211;
  }
  return hash;
}

}  // namespace

Oracle::Oracle(const Scenario& scenario, uint64_t run_seed)
    : scenario_(scenario),
      run_seed_(run_seed),
      sampler_(scenario.coordinator.dealer.train_samples, run_seed, scenario.shuffle),
      servers_(scenario.servers()),
      last_step_(scenario.coordinator.resume ? scenario.coordinator.resume->step - 1 : -1),
      logs_(scenario.servers()),
      log_begins_(scenario.servers()) {}

void Oracle::violated(const char* rule, std::string what) {
  if (!violation_) violation_ = cat(rule, ": ", what);
}

// ---- what is said ------------------------------------------------------------------------------------------

void Oracle::said(const ps::Envelope& e) {
  if (const auto* m = std::get_if<ps::Membership>(&e.body))
    layouts_[m->generation] = m->layout, rebased_ = std::max(rebased_, m->rebase.value_or(0));
  else if (const auto* push = std::get_if<ps::Push>(&e.body))
    on(e, push->rows ? whole_of(*push, *layout_of(e.generation)) : *push);
  else if (const auto* pull = std::get_if<ps::Pull>(&e.body))
    on(e, *pull);
  else if (const auto* ack = std::get_if<ps::PushAck>(&e.body))
    on(e, *ack);
  else if (const auto* reply = std::get_if<ps::PullReply>(&e.body))
    on(e, *reply);
  else if (const auto* snapshot = std::get_if<ps::SnapshotReply>(&e.body))
    on(e, *snapshot);
  else if (const auto* asked = std::get_if<ps::Snapshot>(&e.body))
    on(e, *asked);
  else if (const auto* work = std::get_if<ps::Work>(&e.body))
    on(e, *work);
  else if (const auto* done = std::get_if<ps::WorkDone>(&e.body))
    on(e, *done);
  else if (const auto* done_ack = std::get_if<ps::WorkDoneAck>(&e.body))
    on(e, *done_ack);
  else if (const auto* verdict = std::get_if<ps::Verdict>(&e.body))
    on(e, *verdict);
  else if (const auto* held = std::get_if<ps::ReplicateAck>(&e.body))
    on(e, *held);
  else if (const auto* spawn = std::get_if<ps::Spawn>(&e.body))
    on(e, *spawn);
  else if (const auto* fault = std::get_if<ps::Fault>(&e.body))
    violated("end", cat(e.from, " says: ", fault->what));
  else if (const auto* r = std::get_if<ps::Refused>(&e.body); r && r->reason == ps::Refused::Reason::malformed)
    violated("end", cat(e.from, " refuses what ", e.to, " said: ", r->detail));
}

void Oracle::on(const ps::Envelope& e, const ps::Work& work) {
  if (work.kind == ps::Work::Kind::train) last_step_ = std::max(last_step_, work.step);
  // A coordinator that has just been started again may repeat work before it invites anybody.
  Dealt dealt{work, layout_of(e.generation)};
  const auto [found, first] = dealt_.try_emplace({e.to, work.number}, dealt);
  if (!first) {
    const ps::Work& before = found->second.work;
    if (before.kind != work.kind || before.step != work.step || before.range != work.range ||
        before.loss_scale != work.loss_scale)
      violated("samples", cat(e.to, " is given other work under number ", work.number));
    return;
  }
  if (work.kind == ps::Work::Kind::evaluate) tests_[e.to.index] = reloads_;
  if (work.kind != ps::Work::Kind::train) return;
  const WorkerStep key{e.to.index, work.step};
  seeds_[seed_of(e.to.index, work.step)] = key;
  const auto [earlier, first_deal] = steps_.try_emplace(key, dealt);
  earlier->second.since.insert(work.since);
  if (e.to.incarnation > 1) restarted_.insert(e.to.index);
  if (first_deal) check_loss_scale(e, work);
  if (!first_deal && earlier->second.work.range != work.range)
    violated("samples", cat(e.to, " is dealt other samples for step ", work.step, " than before"));
}

void Oracle::on(const ps::Envelope& e, const ps::WorkDone& done) {
  const auto found = dealt_.find({e.from, done.number});
  if (found == dealt_.end()) return violated("samples", cat(e.from, " has done work ", done.number, ", never dealt"));
  const Dealt& dealt = found->second;
  if (dealt.work.kind != ps::Work::Kind::train) return;
  for (const ps::Slice& s : dealt.layout->slices)
    if (scenario_.computes(e.from.index, s.layer) && dealt.layout->policies[s.layer].mode != Mode::all_reduce &&
        !slice(s.id).has(e.from.index, done.step))
      return violated("exactly-once",
                      cat(e.from, " calls step ", done.step, " done, but its push of slice ", s.id, " is not stored"));
}

void Oracle::on(const ps::Envelope& e, const ps::WorkDoneAck& ack) { completed(e.to, ack.number); }

void Oracle::completed(const ps::Endpoint& worker, uint64_t number) {
  const auto found = dealt_.find({worker, number});
  if (found == dealt_.end() || found->second.done) return;
  found->second.done = true;
  const ps::Work& work = found->second.work;
  if (work.kind != ps::Work::Kind::train) return;
  const bool first = completed_.insert({worker.index, work.step}).second;
  if (!first && scenario_.stages() > 1) return;  // repeated with the stage of its replica that had not
  if (!first)
    return violated("samples", cat("step ", work.step, " of worker ", worker.index, " is completed twice"));
  if (replica_completed(worker.index, work.step)) ranges_.push_back(work.range);
}

bool Oracle::replica_completed(ps::WorkerId worker, ps::Step step) const {
  const ps::WorkerId first = worker - worker % scenario_.stages();
  for (ps::WorkerId w = first; w < first + scenario_.stages(); ++w)
    if (completed_.count({w, step}) == 0) return false;
  return true;
}

uint64_t Oracle::seed_of(ps::WorkerId worker, ps::Step step) const {
  return work_seed(run_seed_, step, scenario_.replica(worker));
}

std::vector<uint32_t> Oracle::samples_of(const ps::Work& work) const {
  std::vector<uint32_t> samples(static_cast<size_t>(work.range.count));
  sampler_.indices(work.range.epoch, work.range.begin, samples);
  return samples;
}

size_t Oracle::non_finite(ps::WorkerId worker, ps::Step step) const {
  return non_finite_layer(seed_of(worker, step), scenario_.non_finite,
                          scenario_.coordinator.layers.size());
}

void Oracle::on(const ps::Envelope& e, const ps::Push& push) {
  std::vector<ps::Push>& said = pushes_[{e.from, e.to.index, push.sequence}];
  if (!said.empty()) {
    if (said[0].parcel != push.parcel || said[0].step != push.step)
      return violated("exactly-once", cat(e.from, " uses sequence ", push.sequence, " for two pushes"));
    const bool alone = contributors(e, said.back()).size() > 1 && contributors(e, push).size() == 1;
    if (!alone) return;
  }
  said.push_back(push);
  const std::vector<ps::WorkerId> all = contributors(e, push);
  for (const ps::WorkerId w : all)
    if (steps_.count({w, push.step}) == 0)
      return violated("samples", cat(e.from, " pushes step ", push.step, " of worker ", w, ", never dealt"));
  check_gradient(e, push, all);
}

/// Its sender, and those whose gradients are in its sum.
std::vector<ps::WorkerId> Oracle::contributors(const ps::Envelope& e, const ps::Push& push) const {
  std::vector<ps::WorkerId> all = ps::covered_by(push, layout_of(e.generation)->parcels[push.parcel].slices.size());
  all.insert(all.begin(), e.from.index);
  return all;
}

void Oracle::check_gradient(const ps::Envelope& e, const ps::Push& push, std::span<const ps::WorkerId> all) {
  const size_t layers = scenario_.coordinator.layers.size();
  bool finite = true;
  int64_t samples = 0;
  for (const ps::WorkerId w : all) {
    const size_t bad = non_finite(w, push.step);
    const int64_t count = steps_.at({w, push.step}).work.range.count;
    finite = finite && (count == 0 || bad == layers || !scenario_.computes(w, static_cast<ps::LayerId>(bad)));
    samples += count;
  }
  if (!finite) samples = 0;
  if (push.finite != finite || push.samples != samples)
    return violated("samples", cat(e.from, " pushes ", push.samples, " samples (finite ", push.finite, ") of step ",
                                   push.step, ", should be ", samples, " (", finite, ")"));
  if (samples == 0) return;
  const ps::Layout& layout = *layout_of(e.generation);
  const auto& slices = layout.parcels[push.parcel].slices;
  for (size_t i = 0; i < slices.size(); ++i) {
    const ps::Slice& s = layout.slices[slices[i]];
    if (scenario_.reads_weights[s.layer]) continue;
    std::vector<double> expected(static_cast<size_t>(s.count()));
    for (const ps::WorkerId w : all) {
      const std::vector<uint32_t> its = samples_of(steps_.at({w, push.step}).work);
      const auto whole = gradient(seed_of(w, push.step), its, s.layer, layout.layers[s.layer].count, {});
      for (size_t k = 0; k < expected.size(); ++k) expected[k] += whole[static_cast<size_t>(s.begin) + k];
    }
    if (const LayerSpec& layer = layout.layers[s.layer]; layer.row_width > 0) {
      const Tensor rows = step_rows(seed_of(e.from.index, push.step), s.layer, layer);
      const auto named = rows.span<int32_t>();
      for (size_t k = 0; k < expected.size(); ++k)
        if (!std::ranges::binary_search(named, (s.begin + static_cast<int64_t>(k)) / layer.row_width)) expected[k] = 0;
    }
    if (const std::string d = difference(push.gradients[i].span<float>(), expected); !d.empty())
      violated("samples", cat(e.from, " pushes another gradient of slice ", s.id, ", step ", push.step, ": ", d));
  }
}

// ---- what servers say --------------------------------------------------------------------------------------

ReferenceServer* Oracle::view_of(const ps::Endpoint& server) {
  ReferenceServer& now = servers_[server.index];
  if (now.owner == server.incarnation) return &now;
  if (const auto found = replaced_.find(server); found != replaced_.end()) return &found->second;
  // Whatever an old one says follows from what its successor has.
  return scenario_.replicates() && server.incarnation < now.owner ? &now : nullptr;
}

ReferenceSlice& Oracle::slice(ps::SliceId id) {
  for (ReferenceServer& server : servers_)
    if (const auto found = server.slices.find(id); found != server.slices.end()) return found->second;
  violated("end", cat("no server holds slice ", id));
  return nothing_;
}

void Oracle::on(const ps::Envelope& e, const ps::PushAck& ack) {
  const ReferenceServer* server = view_of(e.from);
  if (!server || !server->layout) return violated("exactly-once", cat(e.from, " acknowledges before it has a store"));
  for (const ps::SliceId id : layout_of(e.generation)->parcels[ack.parcel].slices) {
    if (scenario_.replicates()) told_.insert({id, e.to.index, ack.step});
    if (!server->slices.at(id).has(e.to.index, ack.step))
      return violated("exactly-once", cat(e.from, " acknowledges parcel ", ack.parcel, ", step ", ack.step, " of ",
                                          e.to, ", which is not stored"));
  }
}

void Oracle::on(const ps::Envelope& e, const ps::Pull& pull) {
  if (pull.rows) asked_[{e.from, pull.parcel, pull.ticket}] = pull.rows;
}

void Oracle::on(const ps::Envelope& e, const ps::PullReply& given) {
  const auto asked = asked_.find({e.to, given.parcel, given.ticket});
  const ps::PullReply reply = asked == asked_.end() ? given : whole_of(given, asked->second, *layout_of(e.generation));
  ReferenceServer* server = view_of(e.from);
  if (!server || !server->layout) return violated("staleness", cat(e.from, " answers before it has a store"));
  if (scenario_.replicates()) return check_held_reply(e, reply, *server);
  check_reply(e, reply, *server);
}

void Oracle::check_reply(const ps::Envelope& e, const ps::PullReply& reply, ReferenceServer& server) {
  const ps::Parcel& parcel = layout_of(e.generation)->parcels[reply.parcel];
  const auto wrong = [&](const std::string& what) {
    violated("staleness", cat(e.from, " answers a read of parcel ", reply.parcel, " (", describe(parcel.policy),
                              ") for step ", reply.step, " of ", e.to, ": ", what));
  };
  const ps::Policy& policy = parcel.policy;  // the coordinator's, not what the server makes of it
  for (size_t i = 0; i < parcel.slices.size(); ++i) {
    ReferenceSlice& s = server.slices.at(parcel.slices[i]);
    const ps::Step slowest = server.slowest(s.slice().id);
    const int64_t lag = policy.immediate() ? std::max<int64_t>(0, reply.step - slowest) : 0;
    if (reply.lag != lag) return wrong(cat("it says a lag of ", reply.lag, ", should be ", lag));
    if (policy.mode == Mode::ssp && slowest < reply.step - policy.staleness)
      return wrong(cat("the slowest worker has contributed only what is before step ", slowest));
    if (policy.mode == Mode::all_reduce) continue;  // a home may be older than an old request; see check_weights
    if (policy.mode == Mode::sync)
      for (ps::Step step = server.base; step < reply.step; ++step)
        if (!s.settled.count(step)) return wrong(cat("step ", step, " is not complete"));
    const auto values = reply.values.at(i).span<float>();
    if (policy.mode == Mode::sync && repeated(s, e.to.index, reply.step, values)) continue;
    const std::vector<double> expected = policy.immediate() ? s.current() : s.before(reply.step);
    if (const std::string d = difference(values, expected); !d.empty())
      return wrong(cat("slice ", s.slice().id, ", ", d));
    remember_read(s.slice().id, values, slowest);
  }
}

void Oracle::remember_read(ps::SliceId slice, std::span<const float> values, ps::Step slowest) {
  auto& known = read_.try_emplace({slice, hash_of(values)}, slowest).first->second;
  known = std::max(known, slowest);
  if (scenario_.coordinator.layers[this->slice(slice).slice().layer].row_width > 0)
    row_reads_[slice].push_back({{values.begin(), values.end()}, slowest});
}

/// The slowest clock of the newest read that has these values where they were read; none: no read has.
std::optional<ps::Step> Oracle::read_of(const ps::Slice& s, std::span<const float> values) const {
  if (scenario_.coordinator.layers[s.layer].row_width == 0) {
    const auto read = read_.find({s.id, hash_of(values)});
    return read == read_.end() ? std::nullopt : std::optional(read->second);
  }
  std::optional<ps::Step> newest;
  const auto reads = row_reads_.find(s.id);
  for (size_t i = 0; reads != row_reads_.end() && i < reads->second.size(); ++i) {
    const auto& [seen, slowest] = reads->second[i];
    const auto agrees = [](float mine, float read) { return mine == kUnread || mine == read; };
    if (std::ranges::equal(values, seen, agrees)) newest = std::max(newest.value_or(slowest), slowest);
  }
  return newest;
}

/// Where a worker's part of a step has been counted, what it reads for that step may be newer: an old copy of a
/// request, or a restarted worker's, which drops what it computes from that.
bool Oracle::repeated(const ReferenceSlice& s, ps::WorkerId worker, ps::Step step,
                      std::span<const float> values) const {
  if (!s.has(worker, step)) return false;
  return std::ranges::any_of(s.settled, [&](ps::Step settled) {
    return settled >= step && difference(values, s.before(settled + 1)).empty();
  });
}

void Oracle::on(const ps::Envelope& e, const ps::SnapshotReply& reply) {
  ReferenceServer* server = view_of(e.from);
  if (!server) return violated("checkpoint", cat(e.from, " gives a snapshot before it has a store"));
  if (e.from.incarnation < servers_[e.from.index].owner) return;  // nobody listens
  bool first = false;
  if (!cuts_.empty() && cuts_.back().round == reply.round)
    for (auto& [id, s] : server->slices)
      first = cuts_.back().slices.try_emplace(id, s.current(), s.updates()).second || first;
  if (scenario_.over_hosts() && !first) return;  // said again, and late: training may have gone on
  if (reply.slices.size() != server->slices.size())
    violated("checkpoint", cat(e.from, " gives ", reply.slices.size(), " slices of ", server->slices.size()));
  for (const ps::SliceState& state : reply.slices) {
    ReferenceSlice& s = server->slices.at(state.slice);
    if (!s.pending.empty())
      violated("checkpoint", cat(e.from, " gives a snapshot while step ", s.pending.begin()->first, " is incomplete"));
    if (server->policy(s.slice()).mode == Mode::all_reduce) continue;  // checked as part of the checkpoint
    if (const std::string d = difference(state.values.span<float>(), s.current()); !d.empty())
      violated("exactly-once", cat("in a snapshot of ", e.from, ", slice ", state.slice, ", ", d));
    if (state.updates != s.updates())
      violated("exactly-once", cat("in a snapshot of ", e.from, " slice ", state.slice, " had ", state.updates,
                                   " updates, should be ", s.updates()));
  }
}

// ---- the group's verdict -----------------------------------------------------------------------------------

void Oracle::on(const ps::Envelope&, const ps::Verdict& verdict) {
  const auto [found, first] = verdicts_.try_emplace(verdict.step, verdict);
  if (first) return check_verdict(verdict);
  if (found->second.skip != verdict.skip || found->second.scale != verdict.scale)
    violated("sync-step", cat("two verdicts on step ", verdict.step));
}

/// What all verdicts before the step made of the first scale, and so the same for all workers.
void Oracle::check_loss_scale(const ps::Envelope& e, const ps::Work& work) {
  const ps::CoordinatorOptions& c = scenario_.coordinator;
  const bool resumed = c.loss_scaling.dynamic && c.resume_scale;
  ps::LossScale scale = resumed ? *c.resume_scale : ps::LossScale{c.loss_scaling.initial, 0};
  for (const auto& [step, verdict] : verdicts_)
    if (step < work.step) scale = ps::next_loss_scale(c.loss_scaling, scale, verdict.skip);
  if (work.loss_scale != scale.value)
    violated("sync-step", cat(e.to, " is to scale the loss of step ", work.step, " by ", work.loss_scale,
                              ", should be ", scale.value));
}

bool Oracle::any_non_finite(ps::Step step) const {
  for (ps::WorkerId w = 0; w < scenario_.workers(); ++w) {
    const auto dealt = steps_.find({w, step});
    if (dealt != steps_.end() && dealt->second.work.range.count > 0 && (!scenario_.shrinks() || took_part(w, step)) &&
        non_finite(w, step) < scenario_.coordinator.layers.size())
      return true;
  }
  return false;
}

/// One who was dropped may not have.
bool Oracle::took_part(ps::WorkerId worker, ps::Step step) const {
  for (const ReferenceServer& server : servers_)
    for (const auto& [id, s] : server.slices)
      if (const auto parts = s.pending.find(step); parts != s.pending.end() && parts->second.count(worker)) return true;
  return false;
}

void Oracle::check_verdict(const ps::Verdict& verdict) {
  const ps::Step step = verdict.step;
  const bool skip = any_non_finite(step);
  if (verdict.skip != skip) return violated("sync-step", cat("the verdict on step ", step, " should be skip = ", skip));
  if (skip) return;
  double squares = 0;
  for (const ReferenceServer& server : servers_)
    for (const auto& [id, s] : server.slices) {
      const Mode mode = server.policy(s.slice()).mode;
      std::vector<double> sum(static_cast<size_t>(s.slice().count()));
      int64_t samples = 0;
      if (mode == Mode::all_reduce) {
        sum = reduced_gradient(s.slice(), step);
        samples = steps_.count({0, step}) ? steps_.at({0, step}).work.step_samples : 0;
      } else if (const auto parts = s.pending.find(step); mode == Mode::sync && parts != s.pending.end()) {
        for (const auto& [worker, part] : parts->second) {
          samples += part.samples;
          for (size_t i = 0; i < part.gradient.size(); ++i) sum[i] += part.gradient[i];
        }
      }
      for (const double g : sum) squares += samples > 0 ? g * g / static_cast<double>(samples * samples) : 0;
    }
  const double clip = scenario_.coordinator.clip_norm, norm = std::sqrt(squares);
  const double scale = clip > 0 && norm > clip ? clip / norm : 1;
  if (std::abs(verdict.scale - scale) > 1e-5)
    violated("sync-step", cat("the verdict on step ", step, " scales by ", verdict.scale, ", should be ", scale));
}

// ---- what is computed --------------------------------------------------------------------------------------

void Oracle::computes(ps::WorkerId worker, const Batch& batch, std::span<const Tensor> weights) {
  computes(worker, batch.seed, weights);
  const auto key = seeds_.find(batch.seed);
  if (key != seeds_.end() && !std::ranges::equal(batch.samples, samples_of(steps_.at(key->second).work)))
    violated("samples", cat("worker ", worker, " computes step ", key->second.second, " on other samples"));
}

void Oracle::computes(ps::WorkerId worker, uint64_t seed, std::span<const Tensor> weights) {
  const auto key = seeds_.find(seed);
  const auto step = key == seeds_.end() ? steps_.end() : steps_.find({worker, key->second.second});
  if (step == steps_.end() || scenario_.replica(key->second.first) != scenario_.replica(worker))
    return violated("samples", cat("worker ", worker, " computes a step that it was not dealt"));
  const Dealt& dealt = step->second;
  for (const ps::Slice& s : dealt.layout->slices) {
    if (!scenario_.computes(worker, s.layer)) continue;
    const LayerSpec& layer = dealt.layout->layers[s.layer];
    const Tensor& given = weights[s.layer];
    const Tensor values =
        layer.row_width > 0
            ? whole_of(step_rows(seed, s.layer, layer), given, s.begin, s.end, layer.row_width, kUnread)
            : given.view(s.begin, {s.count()});
    check_weights(dealt, worker, s, values.span<float>());
  }
}

void Oracle::check_weights(const Dealt& dealt, ps::WorkerId worker, const ps::Slice& s, std::span<const float> values) {
  const ps::Policy& policy = dealt.layout->policies[s.layer];
  const ps::Step step = dealt.work.step;
  const auto wrong = [&](const std::string& what) {
    violated("staleness", cat("worker ", worker, " computes step ", step, " with slice ", s.id, " (", describe(policy),
                              "): ", what));
  };
  if (policy.lockstep()) {
    if (policy.mode == Mode::all_reduce) reduce(slice(s.id), step);
    if (policy.mode == Mode::sync && repeated(slice(s.id), worker, step, values)) return;
    if (was_lost(s, worker, step, values)) return;
    if (scenario_.asynchronous()) {
      if (!right_version(dealt, worker, slice(s.id), values)) wrong("no version that the schedule has it read");
      return;
    }
    if (const std::string d = difference(values, slice(s.id).before(step)); !d.empty()) wrong(d);
    return;
  }
  const std::optional<ps::Step> read = read_of(s, values);
  if (!read) return wrong("no server ever said these values");
  if (policy.mode == Mode::ssp && *read < step - policy.staleness)
    wrong(cat("they lack what the slowest worker contributed from step ", *read, " on"));
}

/// A stage of an asynchronous pipeline reads the version that its schedule says. One that was started again found
/// only what servers still held of those before the step, at least as new; and what a stage has kept outlives the
/// server that it read it from, also where that one went on from a checkpoint.
bool Oracle::right_version(const Dealt& dealt, ps::WorkerId worker, const ReferenceSlice& s,
                           std::span<const float> values) const {
  const ps::Step step = dealt.work.step, stage = worker % scenario_.stages();
  const ps::Step lag = scenario_.stage.plan.schedule->name == "pipedream" ? scenario_.stages() - 1 - stage : 1;
  for (const ps::Step since : dealt.since) {
    const ps::Step oldest = std::max(since, step - lag), newest = restarted_.count(worker) > 0 ? step : oldest;
    for (ps::Step version = oldest; version <= newest; ++version) {
      if (difference(values, s.before(version)).empty()) return true;
      for (const auto& [server, old] : replaced_)
        if (const auto held = old.slices.find(s.slice().id);
            scenario_.coordinator.servers_reload && held != old.slices.end() &&
            difference(values, held->second.before(version)).empty())
          return true;
    }
  }
  return false;
}

void Oracle::evaluates(ps::WorkerId worker, std::span<const Tensor> weights) {
  for (const ps::Slice& s : layouts_.rbegin()->second->slices) {
    if (!scenario_.computes(worker, s.layer)) continue;
    ReferenceSlice& held = slice(s.id);
    if (layouts_.rbegin()->second->policies[s.layer].mode == Mode::all_reduce) reduce(held, last_step_ + 1);
    const auto values =
        weights[s.layer].span<float>().subspan(static_cast<size_t>(s.begin), static_cast<size_t>(s.count()));
    const std::string d = difference(values, held.before(last_step_ + 1));
    if (!d.empty() && !was_lost_since(s, tests_[worker], values))
      violated("staleness",
               cat("worker ", worker, " evaluates old weights after step ", last_step_, ": slice ", s.id, ", ", d));
  }
}

// ---- checkpoints and the end -------------------------------------------------------------------------------

void Oracle::on(const ps::Envelope&, const ps::Snapshot& snapshot) {
  if (!cuts_.empty() && cuts_.back().round >= snapshot.round) return;
  for (ReferenceServer& server : servers_)
    for (auto& [id, s] : server.slices)
      if (server.policy(s.slice()).mode == Mode::all_reduce) reduce(s, last_step_ + 1);
  cuts_.push_back({snapshot.round, ranges_.size(), {}});
}

void Oracle::checkpointed(const ps::CheckpointRequest& request) {
  std::string difference = "nobody was asked for a snapshot";
  for (; !cuts_.empty(); cuts_.pop_front()) {
    difference = difference_from(cuts_.front(), request);
    if (difference.empty()) break;
  }
  if (!difference.empty())
    return violated("checkpoint", cat("the one of step ", request.step, " is that of no step boundary: ", difference));
  last_checkpoint_ = request.dealer;
  saved_ = request;
}

std::string Oracle::difference_from(const Cut& cut, const ps::CheckpointRequest& request) const {
  if (request.slices.size() != cut.slices.size()) return cat(request.slices.size(), " slices of ", cut.slices.size());
  for (const ps::SliceState& state : request.slices) {
    const auto& [values, updates] = cut.slices.at(state.slice);
    if (const std::string d = difference(state.values.span<float>(), values); !d.empty())
      return cat("slice ", state.slice, ", ", d);
    if (state.updates != updates)
      return cat("slice ", state.slice, " has ", state.updates, " updates, should be ", updates);
  }
  return check_samples(request.dealer, cut.ranges);
}

/// Exactly the samples that `state` calls done are the first `ranges` completed.
std::string Oracle::check_samples(const ps::DealerState& state, size_t ranges) const {
  std::vector<std::vector<int>> times(static_cast<size_t>(state.epoch) + 1);
  for (auto& epoch : times) epoch.assign(static_cast<size_t>(state.train_samples), 0);
  const auto count = [&](const ps::SampleRange& range, int by = 1) {
    for (int64_t i = range.begin; i < range.begin + range.count; ++i)
      times[static_cast<size_t>(range.epoch)][static_cast<size_t>(i)] += by;
  };
  if (const auto& before = scenario_.coordinator.resume) {
    if (before->epoch > state.epoch) return cat("it is in epoch ", state.epoch, ", the run began in ", before->epoch);
    for (int64_t epoch = 0; epoch < before->epoch; ++epoch) count({epoch, 0, before->train_samples});
    count({before->epoch, 0, before->begin});
    for (const ps::SampleRange& range : before->returned) count(range, -1);
  }
  for (size_t i = 0; i < ranges; ++i) {
    if (ranges_[i].count > 0 && ranges_[i].epoch > state.epoch)
      return cat("epoch ", ranges_[i].epoch, " has begun, its state says ", state.epoch);
    if (ranges_[i].count > 0) count(ranges_[i]);
  }
  for (const ps::SampleRange& range : state.returned) count(range);
  for (size_t epoch = 0; epoch < times.size(); ++epoch)
    for (size_t i = 0; i < times[epoch].size(); ++i) {
      const bool dealt = static_cast<int64_t>(epoch) < state.epoch || static_cast<int64_t>(i) < state.begin;
      if (times[epoch][i] != dealt)
        return cat("sample ", i, " of epoch ", epoch, " was completed or returned ", times[epoch][i],
                   " times, should be ", int(dealt));
    }
  return {};
}

void Oracle::finished(const ps::RunResult& result, bool stopped, bool excused) {
  if (excused && result.outcome == ps::Outcome::failed) return;
  if (result.outcome == ps::Outcome::failed) return violated("end", "the run failed: " + result.failure);
  if (result.outcome == ps::Outcome::interrupted && !stopped)
    return violated("end", "the run was interrupted by nobody");
  if (result.outcome == ps::Outcome::interrupted && !result.failure.empty()) return;  // before it began
  if (!last_checkpoint_) return violated("checkpoint", "the run ended without one");
  check_reported(result);
  const ps::DealerOptions& dealer = scenario_.coordinator.dealer;
  if (last_checkpoint_->step != last_step_ + 1)
    violated("checkpoint", cat("the last is of step ", last_checkpoint_->step, "; the last step was ", last_step_));
  if (result.outcome == ps::Outcome::completed && dealer.max_steps == 0 &&
      (last_checkpoint_->epoch != dealer.epochs || last_checkpoint_->begin != 0 || !last_checkpoint_->returned.empty()))
    violated("samples", cat("the run ended in epoch ", last_checkpoint_->epoch, " of ", dealer.epochs, ", at sample ",
                            last_checkpoint_->begin));
}

}  // namespace troupe::sim
