// What the network carries, hears and loses.
#include "world.h"

namespace troupe::sim {

void Simulation::attach(size_t process, const Endpoint& endpoint, ps::Transport::Sink sink) {
  const caf::strong_actor_ptr actor = actor_of(process, endpoint);
  if (!lives(process)) return caf::anon_send_exit(actor, caf::exit_reason::kill);
  if (attached_.count(endpoint) && homes_.at(endpoint) != process)
    oracle_.violated("superseded", cat(endpoint, " lives in two processes"));
  attached_[endpoint] = actor;
  homes_[endpoint] = process;
  owners_[actor->id()] = process;
  everybody_.emplace(actor->id(), caf::actor_cast<caf::actor_addr>(actor));
  note([&] { return cat(endpoint, " begins"); });
  wire_.attach(endpoint, std::move(sink));
}

void Simulation::detach(size_t process, const Endpoint& endpoint) {
  if (const auto home = homes_.find(endpoint); home == homes_.end() || home->second != process) return;
  if (attached_.erase(endpoint) == 0) return;
  note([&] { return cat(endpoint, " has ended"); });
  wire_.detach(endpoint);
}

void Simulation::send(size_t process, Envelope envelope) {
  if (dead_.count(envelope.from) || !lives(process)) return;
  oracle_.said(envelope);
  if (scenario_.over_hosts()) heed(envelope);
  if (trace_ > 0) last_said_[envelope.from] = cat(agenda_.now_us, " us ", describe(envelope));
  if (!unreachable_.count(envelope.from) && !unreachable_.count(envelope.to)) wire_.send(std::move(envelope));
}

caf::strong_actor_ptr Simulation::actor_of(size_t process, const Endpoint& endpoint) const {
  if (endpoint.role == Role::node && process != kCoordinatorProcess && processes_[process - 1]->handle)
    return processes_[process - 1]->handle;
  if (const auto order = take_overs_.find(endpoint); order != take_overs_.end())
    if (const auto replica = attached_.find(order->second); replica != attached_.end()) return replica->second;
  return caf::actor_cast<caf::strong_actor_ptr>(&dynamic_cast<caf::scheduled_actor&>(*scheduler_->jobs.back()));
}

void Simulation::note_incarnations(const ps::Membership& m) {
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

bool Simulation::may_end(const Endpoint& who) const {
  const std::pair slot{who.role, who.index};
  const auto newest = newest_incarnation_.find(slot);
  const auto empty = empty_since_.find(slot);
  return told_to_end_.count(who) > 0 || (newest != newest_incarnation_.end() && newest->second > who.incarnation) ||
         (empty != empty_since_.end() && empty->second >= who.incarnation);
}

void Simulation::delivered(const Envelope& e) {
  hash_ = (hash_ ^ hash_of(e)) * 1099511628211;
  note([&] { return last_heard_[e.to] = describe(e); });
  const int64_t count = ++seen_[e.body.index()];
  for (const Mishap& m : scenario_.mishaps)
    if (m.after == e.body.index() && m.count == count) due_.push_back(&m);
  if (e.to.role == Role::coordinator)
    for (const auto& old : old_) old->mail.push_back(std::make_shared<const Envelope>(e));
  if (e.from == kOldCoordinator) return;
  // A worker heeds memberships, the others whatever a coordinator says.
  if (e.from.role == Role::coordinator && (e.to.role != Role::worker || std::holds_alternative<ps::Membership>(e.body)))
    heard_[e.to] = std::max(heard_[e.to], e.generation);
  if (std::holds_alternative<ps::Finish>(e.body)) told_to_end_.insert(e.to);
  if (const auto* m = std::get_if<ps::Membership>(&e.body)) note_incarnations(*m);
  if (const auto* down = std::get_if<ps::Down>(&e.body);
      down && down->reason.find(kCrash) == std::string::npos && !may_end(down->who))
    oracle_.violated("end", cat(down->who, " ended of itself: ", down->reason));
  if (const auto* ack = std::get_if<ps::DownAck>(&e.body)) zombies_.erase(ack->who);
  if (const auto* synced = std::get_if<ps::Synced>(&e.body)) synced_[e.from.index] = {{synced->server, e.from}};
}

void Simulation::heed(const Envelope& e) {
  begun_ = begun_ || std::holds_alternative<ps::Spawn>(e.body);
  if (const auto* order = std::get_if<ps::Spawn>(&e.body); order && order->takes_over)
    take_overs_[order->who] = *order->takes_over;
  const auto* m = std::get_if<ps::Membership>(&e.body);
  for (ps::WorkerId w = 0; m && w < m->workers.size(); ++w)
    if (m->workers[w] == 0) *current_[w] = false;
}

uint64_t Simulation::bit_of(const Endpoint& who) const {
  const auto home = homes_.find(who);
  if (home == homes_.end() || home->second == kCoordinatorProcess) return Mishap::kCoordinatorBit;
  return uint64_t{1} << processes_[home->second - 1]->place;
}

bool Simulation::is_cut(const Envelope& e) const {
  return std::ranges::any_of(cuts_, [&](const Mishap* m) {
    const bool from = m->group & bit_of(e.from), to = m->group & bit_of(e.to);
    return from != to && (from || !m->one_way);
  });
}

void Simulation::partition(const Mishap& m) {
  note([&] { return cat("the network is cut", m.one_way ? " one way" : ""); });
  cuts_.push_back(&m);
  agenda_.at(agenda_.now_us + m.for_us, [this, &m] { std::erase(cuts_, &m); });
  for (const auto& process : processes_) {
    disturbed_.insert(process->number);
    const bool apart = (m.group >> process->place & 1) != ((m.group & Mishap::kCoordinatorBit) != 0);
    const bool may_be_lost = scenario_.outlives(process->place);
    if (process->alive && apart && may_be_lost) cluster_->link_lost(static_cast<uint32_t>(process->place));
  }
}

void Network::attach(const Endpoint& endpoint, Sink sink) {
  simulation_.attach(process_, endpoint, std::move(sink));
}
void Network::detach(const Endpoint& endpoint) { simulation_.detach(process_, endpoint); }
void Network::send(Envelope envelope) { simulation_.send(process_, std::move(envelope)); }

}  // namespace troupe::sim
