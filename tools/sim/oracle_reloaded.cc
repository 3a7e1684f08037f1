// The oracle's account of servers that keep nothing but what is in the newest checkpoint: whoever follows one that was
// lost goes on from there, and exactly what had been dealt before may be missing.
#include <algorithm>

#include <troupe/kernels/base/text.h>

#include "oracle.h"

namespace troupe::sim {

void Oracle::on(const ps::Envelope&, const ps::Spawn& order) {
  if (order.takes_over) take_overs_[order.who] = *order.takes_over;
  if (order.image) go_on_from_checkpoint(order.who, *order.image);
}

void Oracle::go_on_from_checkpoint(const ps::Endpoint& successor, const ps::ShardImage& image) {
  ReferenceServer& server = servers_[successor.index];
  if (successor.incarnation <= server.owner) return;  // said again
  check_clocks(successor, image);
  const ReferenceServer before = std::exchange(server, {});
  const ps::Endpoint lost{ps::Role::server, successor.index, before.owner};
  if (before.owner != 0) replaced_[lost] = before, lost_[lost] = ++reloads_;
  server.owner = successor.incarnation;
  server.generation = image.membership.generation;
  server.layout = image.membership.layout;
  server.workers = image.membership.workers;
  server.base = before.base;
  const auto& resume = scenario_.coordinator.resume;
  const ps::Step from = saved_ ? saved_->dealer.step : resume ? resume->step : 0;
  for (const ps::ShardImage::Parcel& p : image.parcels)
    for (const ps::SliceId id : server.layout->parcels[p.id].slices) {
      const ps::Slice& s = server.layout->slices[id];
      const std::vector<float>& first = scenario_.first_values[s.layer];
      ReferenceSlice held(s, std::span(first).subspan(static_cast<size_t>(s.begin), static_cast<size_t>(s.count())), 0);
      for (size_t i = 0; saved_ && i < saved_->slices.size(); ++i)
        if (const ps::SliceState& state = saved_->slices[i]; saved_->layout->slices[state.slice] == s)
          held = ReferenceSlice(s, state.values.span<float>(), state.updates);
      const auto known = before.slices.find(id);
      losses_.push_back({successor.index, scenario_.coordinator.layers[s.layer].name, s.begin, s.end, from, p.version,
                         held.updates(), known == before.slices.end() ? 0 : known->second.updates() - held.updates()});
      for (ps::WorkerId w = 0; w < p.clock.size(); ++w)
        for (ps::Step step = 0; step < p.clock[w]; ++step) held.contribute(w, step);
      if (server.policy(s).aggregates())
        for (ps::Step step = 0; step < p.version; ++step) held.settled.insert(step);
      if (auto& versions = versions_[id]; !versions.empty()) versions.back().base = -1;
      if (!cuts_.empty()) cuts_.back().slices.erase(id);
      server.slices.emplace(id, std::move(held));
    }
  logs_[successor.index].clear();
  log_begins_[successor.index] = server;
}

/// What was dealt before is lost, and not a step more.
void Oracle::check_clocks(const ps::Endpoint& successor, const ps::ShardImage& image) {
  // What a coordinator dealt in its last moment may have been heard by nobody.
  const bool crashes = std::ranges::any_of(scenario_.mishaps, [](const Mishap& m) {
    return m.kind == Mishap::Kind::crash_coordinator || m.kind == Mishap::Kind::stop_coordinator;
  });
  std::vector<ps::Step> dealt(scenario_.workers(), rebased_);
  for (const auto& [key, work] : steps_) dealt[key.first] = std::max(dealt[key.first], key.second + 1);
  const ps::Step furthest = *std::ranges::max_element(dealt);
  for (const ps::ShardImage::Parcel& p : image.parcels)
    for (ps::WorkerId w = 0; w < p.clock.size(); ++w) {
      const ps::Step expected = image.membership.layout->parcels[p.id].policy.aggregates() ? furthest : dealt[w];
      if (p.clock[w] < expected || p.clock[w] > expected + crashes)
        violated("exactly-once", cat(successor, " goes on from a checkpoint with step ", p.clock[w], " of worker ", w,
                                     " in parcel ", p.id, ", should be ", expected));
    }
}

/// A step that was dealt before the loss computes with what it had read from the server that was lost.
bool Oracle::was_lost(const ps::Slice& s, ps::WorkerId worker, ps::Step step, std::span<const float> values) {
  if (!slice(s.id).has(worker, step)) return false;
  return std::ranges::any_of(replaced_, [&](const auto& old) {
    const auto held = old.second.slices.find(s.id);
    if (!scenario_.coordinator.servers_reload || held == old.second.slices.end()) return false;
    return difference(values, held->second.before(step)).empty() ||
           difference(values, held->second.before(step + 1)).empty() || repeated(held->second, worker, step, values);
  });
}

/// A test that was dealt before the loss may have read of the one that was lost.
bool Oracle::was_lost_since(const ps::Slice& s, size_t reloads, std::span<const float> values) const {
  return std::ranges::any_of(lost_, [&](const auto& one) {
    const auto& held = replaced_.at(one.first).slices;
    const auto found = held.find(s.id);
    return one.second > reloads && found != held.end() &&
           difference(values, found->second.before(last_step_ + 1)).empty();
  });
}

void Oracle::check_reported(const ps::RunResult& result) {
  std::vector<ps::LostRange> reported = result.lost;
  for (const ps::LostRange& loss : losses_) {
    const auto found = std::ranges::find_if(reported, [&](const ps::LostRange& r) {
      return r.server == loss.server && r.layer == loss.layer && r.begin == loss.begin && r.end == loss.end &&
             r.from_step == loss.from_step && r.to_step == loss.to_step && r.updates == loss.updates &&
             r.updates_lost >= loss.updates_lost;
    });
    if (found == reported.end()) return violated("exactly-once", "a loss was not reported: " + describe(loss));
    reported.erase(found);
  }
}

}  // namespace troupe::sim
