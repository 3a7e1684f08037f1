#include <troupe/ps/control/coordinator_core.h>

#include <algorithm>

#include <troupe/ps/control/internal/coordinator_sums.h>
#include <troupe/ps/param/layer_names.h>

// Who is part of a run, and what is done about those who are lost.
namespace troupe::ps {

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
  order_replicas(out);
}

void CoordinatorCore::spawn(Effects& out, const Endpoint& who, std::optional<Endpoint> takes_over) {
  const Spawn& order = spawning_[who] = Spawn{who, std::move(takes_over), nullptr};
  routes_changed_ = true;
  const auto home = roster_.home(who.role, who.index);
  // Whoever takes over has what it needs where it is, though that node may want to leave.
  if (home && roster_.knows(*home) && (order.takes_over || !roster_.leaving(*home))) {
    if (!lacks_image(order)) send(out, *home, order);
    return;
  }
  roster_.vacate(who.role, who.index);
  homeless_.insert(who);
  place_homeless(out);
  if (homeless_.count(who) > 0 && !roster_.beside({}, who.role))
    out.events.push_back(cat(who, " waits for a node that takes ", who.role == Role::worker ? "workers" : "servers",
                             ": none is left"));
}

void CoordinatorCore::place_homeless(Effects& out) {
  for (auto it = homeless_.begin(); it != homeless_.end();) {
    const Endpoint who = *it++;
    const auto home = roster_.place(who.role, who.index, true);
    if (!home) continue;
    homeless_.erase(who);
    if (roster_.leaving(*home) && !stopping_) request_stop(out);  // which lets it go
    routes_changed_ = true;
    if (!roster_.local()) out.news.push_back(cat(who, " starts on ", roster_.describe(*home)));
    if (const Spawn& order = spawning_.at(who); !lacks_image(order)) send(out, *home, order);
  }
}

std::vector<Routes::Place> CoordinatorCore::places() const {
  std::vector<Routes::Place> places;
  const auto add = [&](const Endpoint& who) {
    if (const auto home = roster_.home(who.role, who.index)) places.push_back({who, home->index});
  };
  for (WorkerId w = 0; w < slots_.size(); ++w)
    if (!slots_[w].absent) add(worker(w));
  for (ServerId s = 0; s < membership_.servers.size(); ++s) add(server(s));
  for (ServerId s = 0; s < replicas_.size(); ++s) add(replica(s));
  return places;
}

void CoordinatorCore::take(Effects& out, Roster::Effects effects) {
  for (auto& [to, body] : effects.say) send(out, to, std::move(body));
  for (std::string& event : effects.events) out.events.push_back(std::move(event));
  for (std::string& piece : effects.news) out.news.push_back(std::move(piece));
  routes_changed_ = routes_changed_ || effects.changed || !effects.lost.empty();
  if (phase_ == Phase::ended) return;
  if (!effects.failure.empty()) return fail_run(out, std::move(effects.failure));
  for (const auto& [node, why] : effects.lost) lost_node(out, node, why);
  if (!begun_ && roster_.complete()) begin(out);
  if (!begun_ || phase_ == Phase::ended) return;
  place_homeless(out);
  order_replicas(out);
  if (!absent().empty() && roster_.has_room(Role::worker)) resize_soon();
  for (const Endpoint& node : effects.leaving) relieve(out, node);
  if (effects.changed && phase_ != Phase::ended) rebalance(out);
}

void CoordinatorCore::lost_node(Effects& out, const Endpoint& node, const std::string& why) {
  const auto slots = roster_.slots_of(node);
  if (slots.empty()) out.events.push_back(cat("lost ", why));
  for (const auto& [role, index] : slots)
    if (role != Role::replica) roster_.vacate(role, index);
  std::set<uint32_t> replaced;  // replicas of several stages, as a whole
  for (const auto& [role, index] : slots) {
    if (phase_ == Phase::ended) return;
    if (role == Role::replica) lost_replica(out, index, why);
    else if (role == Role::server) lost_server(out, index, why);
    else if (stages() == 1 || replaced.insert(index / stages()).second) lost_worker(out, index, why);
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
    if (slots_[w].absent) continue;
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
  if (!roster_.local()) rebalance(out);
}

void CoordinatorCore::on(Effects& out, const Envelope& envelope, const Down& down) {
  send(out, envelope.from, DownAck{down.who});
  if (phase_ == Phase::ended || !current(down.who)) return;
  if (down.who.role == Role::worker) lost_worker(out, down.who.index, down.reason);
  else if (down.who.role == Role::replica) lost_replica(out, down.who.index, down.reason);
  else lost_server(out, down.who.index, down.reason);
}

void CoordinatorCore::lost_worker(Effects& out, WorkerId w, const std::string& reason) {
  const std::string what = cat("worker ", w, " ended: ", reason);
  if (layout().any(Mode::all_reduce)) {
    fail_run(out, cat(what, "; its copy of the all_reduce layers cannot be replaced while the others wait in a "
                            "collective; what came since the last checkpoint is gone", begin_again()));
    return;
  }
  if (options_.on_loss == OnLoss::fail) return fail_run(out, what + "; elastic.on_loss = fail");
  if (options_.on_loss == OnLoss::shrink) return drop_worker(out, w, what);
  if (!may_restart(out, what)) return;
  ++result_.worker_restarts;
  out.events.push_back(cat(what, "; starting ", stages() > 1 ? "its replica" : "it", " again ", restarts_text()));
  replace(out, w);
}

// One budget for all: a run that loses a worker and a server again and again is as ill as one that loses two workers.
// A replica's stages are one restart; what moves, or is dropped, and a replica of a server that is replaced are none.
int64_t CoordinatorCore::restarts_used() const { return result_.worker_restarts + result_.server_restarts; }

std::string CoordinatorCore::restarts_text() const {
  return cat("(", restarts_used(), " of ", options_.max_restarts, ")");
}

bool CoordinatorCore::may_restart(Effects& out, const std::string& what) {
  if (restarts_used() < options_.max_restarts) return true;
  fail_run(out, cat(what, "; ", restarts_used(), " of elastic.max_restarts = ", options_.max_restarts,
                    " restarts are used, ", result_.worker_restarts, " of them for workers and ",
                    result_.server_restarts, " for servers"));
  return false;
}

// New actors for the worker's slot, and for the other stages of its replica: activations under way are lost with it,
// and the replica repeats what one of its stages had not completed.
void CoordinatorCore::replace(Effects& out, WorkerId w) {
  const WorkerId first = w - w % stages(), last = first + stages();
  // By stage: steps that are not in the reports.
  std::vector<std::set<Step>> owed;
  for (WorkerId v = first; v < last; ++v) {
    std::set<Step>& steps = owed.emplace_back(dealer_.repeated_steps(v));
    for (const Step step : slots_[v].repeated) steps.erase(step);
    for (const auto& [number, work] : slots_[v].outstanding)
      if (work.kind == Work::Kind::train && slots_[v].repeated.count(work.step) == 0) steps.insert(work.step);
  }
  dealer_.restart(w);
  // All stages of a replica evaluate the same, though some may be done with it; a worker that has taken the place of
  // one that was dropped has its piece, too.
  std::vector<std::deque<Work>> evaluations(stages()), uploads(stages());
  const auto sort_in = [&](WorkerId v, const Work& work) {
    if (work.kind == Work::Kind::evaluate) evaluations[v - first].push_back(work);
    if (work.kind == Work::Kind::upload) uploads[v - first].push_back(work);
  };
  for (WorkerId v = first; v < last; ++v) {
    for (const auto& [number, work] : slots_[v].outstanding) sort_in(v, work);
    for (const Work& work : slots_[v].special) sort_in(v, work);
  }
  const auto fewer = [](const std::deque<Work>& a, const std::deque<Work>& b) { return a.size() < b.size(); };
  const std::deque<Work> evaluation = *std::ranges::max_element(evaluations, fewer);
  for (WorkerId v = first; v < last; ++v) {
    slots_[v].repeated = dealer_.repeated_steps(v);
    slots_[v].since = slots_[v].repeated.empty() ? slots_[v].next_step : *slots_[v].repeated.begin();
    for (const Step step : owed[v - first]) slots_[v].repeated.erase(step);
    slots_[v].special = std::move(uploads[v - first]);
    slots_[v].special.insert(slots_[v].special.end(), evaluation.begin(), evaluation.end());
    if (v != w && membership_.workers[v] != 0) send(out, worker(v), Finish{});  // waits for a neighbour that is gone
    vacate(v);
    membership_.workers[v] = ++last_worker_[v];
  }
  for (WorkerId v = first; v < last; ++v) spawn(out, worker(v));
}

// What is under way with whoever held the slot counts no more.
void CoordinatorCore::vacate(WorkerId w) {
  Slot& slot = slots_[w];
  outstanding_ -= static_cast<int64_t>(slot.outstanding.size());
  slot.outstanding.clear();
  slot.granted = 0;
  slot.parked = false;
  waiting_.erase(w);
  spawning_.erase(worker(w));
  homeless_.erase(worker(w));
  unacknowledged_.clear();  // a generation keeps its members: the next one is on its way
}

// The others' steps go on without it at once: servers wait for it no more. Its samples are dealt again: on demand to
// whoever asks, under lockstep from the next boundary on, where the batch is shared out anew.
void CoordinatorCore::drop_worker(Effects& out, WorkerId w, const std::string& what) {
  const auto left = static_cast<int64_t>(slots_.size() - absent().size()) - 1;
  if (left < std::max<int64_t>(options_.min_workers, 1))
    return fail_run(out, cat(what, "; ", left, " workers are left, and elastic.min_workers = ", options_.min_workers));
  ++result_.workers_dropped;
  Slot& slot = slots_[w];
  if (layout().lockstep()) dealer_.restart(w);
  else dealer_.give_back(w);
  std::deque<Work> special = std::move(slot.special);
  slot.special.clear();
  for (auto& [number, work] : slot.outstanding)
    if (work.kind != Work::Kind::train) special.push_back(work);
  vacate(w);
  slot.absent = true;
  slot.parked = true;
  membership_.workers[w] = 0;
  roster_.vacate(Role::worker, w);
  for (WorkerId heir = 0; heir < slots_.size(); ++heir) {
    if (slots_[heir].absent) continue;
    slots_[heir].special.insert(slots_[heir].special.end(), special.begin(), special.end());
    if (auto awaited = evaluating_.extract(w)) evaluating_[heir] += awaited.mapped();
    break;
  }
  out.events.push_back(cat(what, "; ", left, " go on without it"));
  routes_changed_ = true;
  close_complete_reports(out);
  resize_soon();
  if (spawning_.empty()) invite(out);
}

std::vector<WorkerId> CoordinatorCore::absent() const {
  std::vector<WorkerId> absent;
  for (WorkerId w = 0; w < slots_.size(); ++w)
    if (slots_[w].absent) absent.push_back(w);
  return absent;
}

void CoordinatorCore::resize_soon() {
  if (resizing_) return;
  resizing_ = true;
  if (!stopping_) stop_step_ = furthest();
}

// At a boundary: whoever has a node now works again, and the batch is shared out among those who are there.
void CoordinatorCore::apply_resize(Effects& out) {
  resizing_ = false;
  const Step step = furthest();
  for (const WorkerId w : absent()) {
    const auto home = roster_.place(Role::worker, w);
    if (!home) continue;
    slots_[w] = Slot{};
    membership_.workers[w] = ++last_worker_[w];
    out.news.push_back(cat("step ", step, ": worker ", w, " works again"));
    spawn(out, worker(w));
  }
  DealerOptions& dealer = options_.dealer;
  const std::vector<WorkerId> missing = absent();
  dealer.vacancies = !missing.empty();
  if (missing.empty()) {
    dealer.worker_batch = full_batch_;
  } else {
    const auto present = static_cast<int64_t>(slots_.size() - missing.size());
    const std::vector<int64_t> shares = equal_split(dealer.global_batch, present);
    size_t next = 0;
    for (WorkerId w = 0; w < slots_.size(); ++w) dealer.worker_batch[w] = slots_[w].absent ? 0 : shares[next++];
  }
  out.news.push_back(cat("step ", step, ": ", slots_.size() - missing.size(), " workers share the batch of ",
                           dealer.global_batch));
}

std::string CoordinatorCore::begin_again() const {
  if (result_.checkpoints_written > 0 || options_.resume) return ": go on from there with train --resume RUN";
  return ", and there is none yet: begin anew, with checkpoint.every_steps for the next time";
}

void CoordinatorCore::lost_server(Effects& out, ServerId s, const std::string& reason) {
  const std::string what = cat("server ", s, " ended: ", reason);
  moving_.erase(s);
  // Its replica's node may have been lost in the same moment.
  const auto beside = roster_.home(Role::replica, s);
  const bool replicated = !replicas_.empty() && replicas_[s].synced == server(s) && beside && roster_.knows(*beside);
  const bool reloads = options_.servers_reload && !layout().any(Mode::all_reduce);
  if (!replicated && !options_.servers_recover && !reloads) {
    fail_run(out, cat(what, options_.replicas ? "; its replica had not caught up" : "",
                      options_.servers_reload ? "; it was the home of all_reduce layers, of which its workers may hold "
                                                "copies of different age"
                                              : "",
                      "; what it held since the last checkpoint is gone", begin_again()));
    return;
  }
  if (!may_restart(out, what)) return;
  ++result_.server_restarts;
  if (replicated) {
    out.events.push_back(cat(what, "; its replica on ", roster_.describe(*beside), " takes over ", restarts_text()));
    return promote(out, s);
  }
  spawning_.erase(server(s));
  homeless_.erase(server(s));
  unacknowledged_.clear();
  ++membership_.servers[s];
  out.events.push_back(cat(what, "; starting it again from ", reloads ? "the newest checkpoint " : "its store ",
                           restarts_text()));
  if (reloads) reload(out, s);
  spawn(out, server(s));
}

// Safe at any time, whether the old server lives or not: what it has acknowledged its replica holds, and from now on it
// gets no acknowledgement any more, so that it says nothing more.
void CoordinatorCore::promote(Effects& out, ServerId s) {
  const Endpoint home = *roster_.home(Role::replica, s);
  const Endpoint from = replica(s);
  spawning_.erase(server(s));
  homeless_.erase(server(s));
  unacknowledged_.clear();
  ++membership_.servers[s];
  roster_.vacate(Role::replica, s);
  roster_.settle(Role::server, s, home);
  replicas_[s].here = false;
  replicas_[s].synced.reset();
  moving_.erase(s);
  membership_.replicas[s] = 0;
  spawn(out, server(s), from);
  if (roster_.leaving(home)) relieve(out, home);
}

void CoordinatorCore::move_to_replica(Effects& out, ServerId s) {
  out.news.push_back(cat("server ", s, " moves to ", roster_.describe(*roster_.home(Role::replica, s))));
  promote(out, s);
}

// ---- moves ---------------------------------------------------------------------------------------------------------

// A node that leaves holds nothing in the end; where nobody can take what it holds, the run ends with a checkpoint.
void CoordinatorCore::relieve(Effects& out, const Endpoint& node) {
  if (stopping_) return;  // all may leave soon
  for (const auto& [role, index] : roster_.slots_of(node)) {
    if (phase_ == Phase::ended) return;
    const auto to = roster_.beside(node, role);
    if (role == Role::replica) {
      lost_replica(out, index, cat(roster_.describe(node), " leaves"));
    } else if (const auto present = static_cast<int64_t>(slots_.size() - absent().size());
               role == Role::worker && options_.on_loss == OnLoss::shrink &&
               present > std::max<int64_t>(options_.min_workers, 1)) {
      lost_worker(out, index, cat(roster_.describe(node), " leaves"));
    } else if (!to || (role == Role::server && options_.servers_recover)) {
      out.events.push_back(cat(to ? "the log stays where it is of " : "no other node takes ", Endpoint{role, index, 1},
                               ": the run ends at the next step boundary"));
      return request_stop(out);
    } else {
      move(out, role, index, *to);
    }
  }
}

// A node that came while others hold two more than it does takes one of theirs at a time.
void CoordinatorCore::rebalance(Effects& out) {
  if (phase_ != Phase::running || !moving_.empty() || !spawning_.empty() || !absent().empty()) return;
  for (const Role role : {Role::worker, Role::server}) {
    if (role == Role::server && options_.servers_recover) continue;  // its log is where it is
    if (const auto swap = roster_.imbalance(role)) return move(out, role, swap->slot, swap->to);
  }
}

void CoordinatorCore::move(Effects& out, Role role, uint32_t index, const Endpoint& to) {
  if (role == Role::server) {
    if (!moving_.emplace(index, to).second) return;
    if (replicas_[index].synced == server(index)) return move_to_replica(out, index);
    if (!replicas_[index].here) order_replicas(out);
    return;
  }
  out.news.push_back(cat("worker ", index, " moves to ", roster_.describe(to)));
  roster_.settle(Role::worker, index, to);
  replace(out, index);
}

// ---- replicas ------------------------------------------------------------------------------------------------------

// A server without one gets one, on another node, as soon as there is such a node. Nobody waits for it.
void CoordinatorCore::order_replicas(Effects& out) {
  for (ServerId s = 0; s < replicas_.size(); ++s) {
    ReplicaSlot& slot = replicas_[s];
    const auto home = roster_.home(Role::server, s);
    const auto target = moving_.find(s);
    if (!options_.replicas && target == moving_.end()) continue;
    if (slot.here || !home || spawning_.count(server(s)) > 0 || !roster_.knows(*home)) continue;
    const bool there = target != moving_.end() && roster_.knows(target->second) && !roster_.leaving(target->second);
    const auto beside = there ? std::optional(target->second) : roster_.beside(*home, Role::server);
    if (!beside) {
      if (!slot.said)
        out.events.push_back(cat("server ", s, " has no replica: there is no other node that takes servers"));
      slot.said = true;
      continue;
    }
    slot.here = true;
    slot.said = slot.acknowledged = false;
    ++slot.incarnation;
    roster_.settle(Role::replica, s, *beside);
    routes_changed_ = true;
    send(out, *beside, Spawn{replica(s), std::nullopt, nullptr});
  }
}

void CoordinatorCore::lost_replica(Effects& out, ServerId s, const std::string& reason) {
  roster_.vacate(Role::replica, s);
  replicas_[s].here = false;
  replicas_[s].synced.reset();
  out.events.push_back(cat("the replica of server ", s, " ended: ", reason));
  routes_changed_ = true;
  if (membership_.replicas[s] == 0) return;
  membership_.replicas[s] = 0;
  unacknowledged_.clear();
  if (spawning_.empty()) invite(out);  // its server waits for it no more
}

void CoordinatorCore::replica_started(Effects& out, const Endpoint& who) {
  ReplicaSlot& slot = replicas_[who.index];
  if (slot.acknowledged || !slot.here) return;
  slot.acknowledged = true;
  membership_.replicas[who.index] = who.incarnation;
  unacknowledged_.clear();
  if (spawning_.empty()) invite(out);
}

void CoordinatorCore::on(Effects& out, const Envelope& envelope, const Synced& synced) {
  send(out, envelope.from, SyncedAck{synced.server});
  ReplicaSlot& slot = replicas_[envelope.from.index];
  if (slot.synced == synced.server) return;
  slot.synced = synced.server;
  out.news.push_back(cat("the replica of ", synced.server, " is up to date"));
  if (moving_.count(envelope.from.index) > 0 && synced.server == server(envelope.from.index))
    move_to_replica(out, envelope.from.index);
}

void CoordinatorCore::on(Effects& out, const SpawnAck& ack) {
  if (ack.who.role == Role::replica) {
    if (current(ack.who)) replica_started(out, ack.who);
    return;
  }
  // Nobody was told to start it yet: another coordinator may have.
  if (homeless_.count(ack.who) > 0 || spawning_.erase(ack.who) == 0) return;
  if (ack.who.role == Role::server)
    if (const auto back = reloaded_.find(ack.who.index); back != reloaded_.end()) back->second.waits = false;
  if (spawning_.empty()) invite(out);
  order_replicas(out);
}

bool CoordinatorCore::current(const Endpoint& who) const {
  switch (who.role) {
    case Role::worker: return who.index < slots_.size() && worker(who.index) == who;
    case Role::server: return who.index < membership_.servers.size() && server(who.index) == who;
    case Role::node: return roster_.knows(who);
    case Role::replica: return who.index < replicas_.size() && replicas_[who.index].here && replica(who.index) == who;
    default: return false;
  }
}

}  // namespace troupe::ps
