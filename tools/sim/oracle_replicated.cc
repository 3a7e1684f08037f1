// The oracle's account of runs over several processes, whose servers keep what they promise in their replicas: what a
// server says leaves late, and whoever takes over goes on from what the replica had.
#include <algorithm>

#include <troupe/kernels/base/text.h>

#include "oracle.h"

namespace troupe::sim {

void Oracle::imaged(const ps::Endpoint& server, ps::Incarnation replica) {
  if (server.incarnation < servers_[server.index].owner) return;
  images_[{{ps::Role::replica, server.index, replica}, server}] = logs_[server.index].size();
}

void Oracle::on(const ps::Envelope& e, const ps::ReplicateAck& ack) {
  uint64_t& held = acknowledged_[{e.from, e.to}];
  held = std::max(held, ack.index);
}

void Oracle::go_on_from_replica(ps::ServerId id, const ps::Endpoint& successor) {
  const auto order = take_overs_.find(successor);
  if (order == take_overs_.end()) return violated("superseded", cat(successor, " serves, but takes nothing over"));
  const Pair* newest = nullptr;
  for (const auto& [pair, held] : acknowledged_)
    if (pair.first == order->second && (!newest || pair.second.incarnation > newest->second.incarnation))
      newest = &pair;
  if (!newest) return violated("exactly-once", cat(successor, " takes over from a replica that has nothing"));
  std::vector<ps::Envelope>& log = logs_[id];
  const size_t has = images_.at(*newest) + acknowledged_.at(*newest);
  if (has < log.size()) log.resize(has);
  servers_[id] = log_begins_[id];
  for (const ps::Envelope& event : log) store_event(servers_[id], event);
  for (const auto& [slice, worker, step] : told_)
    if (const auto held = servers_[id].slices.find(slice);
        held != servers_[id].slices.end() && !held->second.has(worker, step))
      return violated("exactly-once", cat(successor, " takes over without step ", step, " of worker ", worker,
                                          ", slice ", slice, ", which was acknowledged"));
}

/// Its store is its own: what counts is what it says, which its successor has; or which is lost with it.
void Oracle::stored_by_old(const ps::Envelope& e) {
  const auto old = replaced_.find(e.to);
  if (old == replaced_.end()) return;
  const auto break_off = [&] {
    for (const auto& [id, s] : old->second.slices)
      if (auto& versions = versions_[id]; !versions.empty()) versions.back().base = -1;
  };
  break_off();
  store_event(old->second, e);
  keep_versions(old->second, e);
  break_off();
}

void Oracle::keep_versions(const ReferenceServer& server, const ps::Envelope& event) {
  const auto keep = [&](ps::SliceId id) {
    const ReferenceSlice& s = server.slices.at(id);
    if (!server.policy(s.slice()).immediate()) return;
    std::vector<Version>& versions = versions_[id];
    const bool same = !versions.empty() && versions.back().base == server.base;
    versions.push_back({s.current(), server.base, server.slowest(id, same ? versions.back().slowest : 0)});
  };
  if (const auto* push = std::get_if<ps::Push>(&event.body)) {
    for (const ps::SliceId id : server.layout->parcels[push->parcel].slices) keep(id);
  } else if (std::holds_alternative<ps::Membership>(event.body)) {
    for (const auto& [id, s] : server.slices) {
      if (auto& versions = versions_[id]; !versions.empty()) versions.back().base = -1;  // clocks may have gone back
      keep(id);
    }
  }
}

void Oracle::check_held_reply(const ps::Envelope& e, const ps::PullReply& reply, ReferenceServer& server) {
  const ps::Parcel& parcel = layout_of(e.generation)->parcels[reply.parcel];
  if (!parcel.policy.immediate()) return check_reply(e, reply, server);
  for (size_t i = 0; i < parcel.slices.size(); ++i) {
    const auto values = reply.values.at(i).span<float>();
    const auto fits = [&](const Version& v) {
      const bool fresh = parcel.policy.mode != ps::Mode::ssp || v.slowest >= reply.step - parcel.policy.staleness;
      return fresh && reply.lag == std::max<int64_t>(0, reply.step - v.slowest) && difference(values, v.values).empty();
    };
    const auto& versions = versions_[parcel.slices[i]];
    const auto found = std::find_if(versions.rbegin(), versions.rend(), fits);
    if (found == versions.rend())
      return violated("staleness", cat(e.from, " answers a read of parcel ", reply.parcel, " (",
                                       describe(parcel.policy), ") for step ", reply.step, " of ", e.to, ": slice ",
                                       parcel.slices[i],
                                       " never held that with a lag of ", reply.lag));
    remember_read(parcel.slices[i], values, found->slowest);
  }
}

}  // namespace troupe::sim
