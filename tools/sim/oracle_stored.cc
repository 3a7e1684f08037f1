// The oracle's account of what stores take, and so of what parameters should be.
#include <algorithm>

#include <troupe/kernels/base/text.h>

#include "gradient.h"
#include "oracle.h"
#include "row_values.h"

namespace troupe::sim {
namespace {

using ps::Mode;

bool bare(const ps::Push& push) { return push.samples == 0 && push.gradients.empty(); }

}  // namespace

// ---- what is stored ----------------------------------------------------------------------------------------

void Oracle::stored(ps::ServerId id, const ps::Envelope& e) {
  if (const auto* push = std::get_if<ps::Push>(&e.body); push && push->rows)
    return stored(id, {e.from, e.to, e.generation, whole_of(*push, *layout_of(e.generation))});
  ReferenceServer& server = servers_[id];
  if (scenario_.replicates()) {
    if (e.to.incarnation < server.owner) return stored_by_old(e);
    if (server.owner != 0 && e.to.incarnation > server.owner) go_on_from_replica(id, e.to);
    logs_[id].push_back(e);
  }
  store_event(server, e);
  if (scenario_.replicates()) keep_versions(server, e);
}

void Oracle::store_event(ReferenceServer& server, const ps::Envelope& e) {
  if (e.to.incarnation < server.owner)
    return violated("superseded", cat(e.to, " stores ", ps::name_of(e.body), " of ", e.from,
                                      "; its slot is incarnation ", server.owner, "'s"));
  if (const auto* m = std::get_if<ps::Membership>(&e.body)) return store(server, e, *m);
  // A read may wait from one generation to the next.
  if (const auto* pull = std::get_if<ps::Pull>(&e.body)) return store(server, e, *pull);
  if (e.generation != server.generation)
    return violated("superseded", cat(e.to, " stores ", ps::name_of(e.body), " of generation ", e.generation, " in ",
                                      server.generation));
  if (e.from.role == ps::Role::worker && e.from.incarnation != server.workers[e.from.index])
    return violated("superseded", cat(e.to, " stores ", ps::name_of(e.body), " of ", e.from,
                                      "; its slot is incarnation ", server.workers[e.from.index], "'s"));
  if (const auto* push = std::get_if<ps::Push>(&e.body))
    store(server, e, *push);
  else if (const auto* verdict = std::get_if<ps::Verdict>(&e.body))
    store(server, e, *verdict);
  else if (const auto* install = std::get_if<ps::Install>(&e.body))
    store(server, e, *install);
}

void Oracle::store(ReferenceServer& server, const ps::Envelope& e, const ps::Membership& m) {
  if (!scenario_.replicates() && server.owner != 0 && e.to.incarnation != server.owner)
    replaced_[{ps::Role::server, e.to.index, server.owner}] = server;
  if (server.layout && server.layout->policies != m.layout->policies) server.reads.clear();
  std::erase_if(server.reads,
                [&](const auto& read) { return server.workers[read.first.first] != m.workers[read.first.first]; });
  server.owner = e.to.incarnation;
  server.generation = m.generation;
  server.layout = m.layout;
  server.workers = m.workers;
  for (const ps::Slice& s : m.layout->slices)
    if (s.server == e.to.index) server.slices.try_emplace(s.id, s, scenario_.first_values[s.layer]);
  // Those who are left may have been waiting for one who is not.
  if (scenario_.shrinks() && !scenario_.needs_verdict())
    for (auto& [id, s] : server.slices)
      while (!s.pending.empty() && server.complete(s, s.pending.begin()->first))
        settle(server, s, s.pending.begin()->first, {s.pending.begin()->first});
  if (!m.rebase) return;
  server.base = *m.rebase;
  for (const auto& [id, s] : server.slices)
    if (!s.pending.empty())
      violated("sync-step", cat(e.to, " goes on from step ", *m.rebase, " while step ", s.pending.begin()->first,
                                " of slice ", id, " is incomplete"));
}

void Oracle::store(ReferenceServer& server, const ps::Envelope& e, const ps::Push& push) {
  const auto original = pushes_.find({e.from, e.to.index, push.sequence});
  if (original == pushes_.end() || original->second[0].parcel != push.parcel || original->second[0].step != push.step)
    return violated("exactly-once",
                    cat(e.to, " stores a push that ", e.from, " did not say: sequence ", push.sequence));
  const auto& slices = server.layout->parcels[push.parcel].slices;
  const bool again = server.slices.at(slices.front()).has(e.from.index, push.step);
  if (again) {
    if (!bare(push))
      violated("exactly-once", cat(e.to, " takes step ", push.step, " of worker ", e.from.index, ", parcel ",
                                   push.parcel, " a second time"));
    return;
  }
  for (const ps::WorkerId w : contributors(e, push))
    if (server.slices.at(slices.front()).has(w, push.step))
      return violated("exactly-once", cat(e.to, " takes step ", push.step, " of worker ", w, ", parcel ", push.parcel,
                                          " a second time, in a sum of ", e.from));
  if (std::ranges::none_of(original->second, [&](const ps::Push& said) { return said.samples == push.samples; }))
    return violated("exactly-once", cat(e.to, " stores a push of ", e.from, " without its gradients"));
  for (size_t i = 0; i < slices.size(); ++i)
    take(server, e, push, slices[i], push.samples > 0 ? push.gradients[i] : Tensor{});
}

void Oracle::take(ReferenceServer& server, const ps::Envelope& e, const ps::Push& push, ps::SliceId id,
                  const Tensor& gradient) {
  ReferenceSlice& s = server.slices.at(id);
  s.contribute(e.from.index, push.step);
  Part part{push.samples, push.finite, {}};
  if (gradient) part.gradient.assign(gradient.span<float>().begin(), gradient.span<float>().end());
  if (server.policy(s.slice()).immediate()) {
    if (push.samples == 0) return;
    const double weight = push.scale * rate(server, s, e.from.index, push.samples);
    return s.apply(push.step, part.gradient, weight / static_cast<double>(push.samples));
  }
  if (s.settled.count(push.step))
    return violated("sync-step", cat(e.to, " takes ", e.from, "'s part of step ", push.step, ", which was complete"));
  for (const ps::WorkerId w : contributors(e, push)) {
    s.contribute(w, push.step);
    s.pending[push.step][w] = w == e.from.index ? part : Part{};
  }
  if (server.complete(s, push.step) && !scenario_.needs_verdict())
    settle(server, s, push.step, {push.step});
}

double Oracle::rate(const ReferenceServer& server, const ReferenceSlice& s, ps::WorkerId worker,
                    int64_t samples) const {
  switch (scenario_.immediate_scale) {
    case ps::ImmediateScale::none: return 1;
    case ps::ImmediateScale::samples:
      return static_cast<double>(samples) / static_cast<double>(scenario_.coordinator.dealer.global_batch);
    case ps::ImmediateScale::staleness: {
      const auto read = server.reads.find({worker, s.slice().id});
      return read == server.reads.end() ? 1 : 1 / (1 + static_cast<double>(s.updates() - read->second.second));
    }
  }
  return 1;
}

void Oracle::store(ReferenceServer& server, const ps::Envelope& e, const ps::Pull& pull) {
  for (const ps::SliceId id : server.layout->parcels[pull.parcel].slices) {
    auto& [step, updates] = server.reads.try_emplace({e.from.index, id}, -1, 0).first->second;
    if (pull.step >= step) step = pull.step, updates = server.slices.at(id).updates();
  }
}

void Oracle::settle(ReferenceServer& server, ReferenceSlice& s, ps::Step step, const ps::Verdict& verdict) {
  const auto parts = s.pending.find(step);
  if (parts == s.pending.end() || !server.complete(s, step))
    return violated("sync-step", cat("step ", step, " of slice ", s.slice().id, " is settled with ",
                                     parts == s.pending.end() ? 0 : parts->second.size(), " contributions of ",
                                     scenario_.workers()));
  int64_t samples = 0;
  std::vector<double> sum(static_cast<size_t>(s.slice().count()));
  for (const auto& [worker, part] : parts->second) {
    samples += part.samples;
    for (size_t i = 0; i < part.gradient.size(); ++i) sum[i] += part.gradient[i];
  }
  s.pending.erase(parts);
  s.settled.insert(step);
  if (samples > 0 && !verdict.skip) s.apply(step, sum, verdict.scale / static_cast<double>(samples));
}

void Oracle::store(ReferenceServer& server, const ps::Envelope& e, const ps::Verdict& verdict) {
  const auto known = verdicts_.find(verdict.step);
  if (known == verdicts_.end()) return violated("sync-step", cat(e.to, " stores a verdict that was not given"));
  for (auto& [id, s] : server.slices)
    if (server.policy(s.slice()).aggregates()) settle(server, s, verdict.step, known->second);
}

void Oracle::store(ReferenceServer& server, const ps::Envelope& e, const ps::Install& install) {
  const auto dealt = dealt_.find({e.from, install.round});
  if (dealt == dealt_.end()) return violated("checkpoint", cat(e.from, " installs without being asked"));
  const ps::Step step = dealt->second.work.step;
  for (const ps::SliceState& state : install.slices) {
    ReferenceSlice& s = server.slices.at(state.slice);
    reduce(s, step);
    if (const std::string d = difference(state.values.span<float>(), s.before(step)); !d.empty())
      violated("sync-step", cat(e.from, " brings slice ", state.slice, " of step ", step, " home: ", d));
    if (state.updates != s.updates_before(step))
      violated("sync-step", cat(e.from, " brings slice ", state.slice, " home with ", state.updates,
                                " updates, should be ", s.updates_before(step)));
  }
}

// ---- all_reduce --------------------------------------------------------------------------------------------

std::vector<double> Oracle::reduced_gradient(const ps::Slice& slice, ps::Step step) const {
  std::vector<double> sum(static_cast<size_t>(slice.count()));
  for (ps::WorkerId w = 0; w < scenario_.workers(); ++w) {
    const auto dealt = steps_.find({w, step});
    if (dealt == steps_.end() || !scenario_.computes(w, slice.layer)) continue;
    const std::vector<float> whole = gradient(seed_of(w, step), samples_of(dealt->second.work),
                                              slice.layer, scenario_.coordinator.layers[slice.layer].count, {});
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += whole[static_cast<size_t>(slice.begin) + i];
  }
  return sum;
}

/// Steps before `before` of an all_reduce slice, as they come out of the samples that were dealt.
void Oracle::reduce(ReferenceSlice& s, ps::Step before) {
  for (auto it = steps_.begin(); it != steps_.end() && it->first.first == 0; ++it) {
    const ps::Step step = it->first.second;
    const Dealt& dealt = it->second;
    if (step >= before || dealt.layout->policies[s.slice().layer].mode != Mode::all_reduce) continue;
    if (!s.settled.insert(step).second) continue;
    ps::Verdict verdict{step};
    if (scenario_.needs_verdict()) {
      const auto found = verdicts_.find(step);
      if (found == verdicts_.end()) return violated("sync-step", cat("no verdict was given on step ", step));
      verdict = found->second;
    }
    if (verdict.skip || dealt.work.step_samples == 0) continue;
    s.apply(step, reduced_gradient(s.slice(), step), verdict.scale / static_cast<double>(dealt.work.step_samples));
  }
}

}  // namespace troupe::sim
