#include <troupe/actors/node.h>

#include <algorithm>
#include <map>
#include <set>

#include <troupe/actors/self.h>

// States (the first two only over the network):
//
//   hello --Welcome--> preparing --prepared--> member --Finish--> finishing --its actors have ended--> ended
//     |                    |                     |
//     +---- Rejected ------+---------------------+--> ended
//
// When the actor itself is told to end, its actors are, too. One of them that ends with a reason other than a normal
// exit is reported Down until the coordinator says it has heard. Over the network every message of the coordinator
// shows that it lives; a node that hears nothing of it for `give_up` ends.

namespace troupe {
namespace {

constexpr int64_t kFinishingMs = 3000;  // for actors that were told to end

struct NodeState {
  enum class Phase : uint8_t { hello, preparing, member, finishing, ended };

  const char* name = "node";
  NodeParts parts;
  Phase phase = Phase::member;
  std::map<caf::actor_addr, ps::Endpoint> watched;
  std::set<ps::Endpoint> spawned;
  std::map<ps::Endpoint, ps::Down> unheard;
  ps::Generation generation = 0;  ///< highest heard

  // Over the network.
  std::optional<ps::Ready> ready;  ///< not heard yet
  ps::Heartbeat beat;
  bool leaving = false;
  int64_t lease_ms = 3000, heard_ms = 0, beat_ms = 0, finish_ms = 0;

  ~NodeState() {
    if (parts.transport) parts.transport->detach(parts.self);
  }
};

using Self = NodeActor::stateful_pointer<NodeState>;
using Phase = NodeState::Phase;

void say(Self self, ps::Message body) {
  const NodeParts& parts = self->state.parts;
  parts.transport->send({parts.self, parts.coordinator, 0, std::move(body)});
}

void report_down(Self self, const ps::Endpoint& who, const std::string& reason) {
  self->state.unheard[who] = {who, reason};
  say(self, self->state.unheard[who]);
}

void end_actors(Self self) {
  for (const auto& [address, who] : self->state.watched)
    if (auto child = caf::actor_cast<caf::actor>(address)) self->send_exit(child, caf::exit_reason::kill);
}

void end(Self self, Status how) {
  if (self->state.phase == Phase::ended) return;
  self->state.phase = Phase::ended;
  end_actors(self);
  self->state.parts.join->ended(std::move(how));
}

// ---- the actors of this process ----------------------------------------------------------------------------------

// What its actors are made of is the caller's, and may throw.
void start(Self self, const ps::Spawn& order) {
  if (!self->state.spawned.insert(order.who).second) return;
  try {
    const caf::actor child = self->state.parts.spawn(order, self->state.generation);
    // A server that takes over is the actor that was its replica, and is watched already.
    if (!self->state.watched.count(child.address())) self->monitor(child);
    self->state.watched[child.address()] = order.who;
  } catch (const std::exception& e) {
    report_down(self, order.who, cat("it cannot be started: ", e.what()));
  }
}

void finish_if_done(Self self) {
  NodeState& state = self->state;
  if (state.phase != Phase::finishing) return;
  if (!state.watched.empty() && now_ms(self) - state.finish_ms < kFinishingMs) return;
  say(self, ps::Leave{true});
  end(self, {});
}

void on_down(Self self, const caf::down_msg& down) {
  auto found = self->state.watched.find(down.source);
  if (found == self->state.watched.end()) return;
  const ps::Endpoint who = found->second;
  self->state.watched.erase(found);
  finish_if_done(self);
  if (self->state.phase != Phase::member) return;
  // Whoever was replaced, or told that the run is over, ends by itself, and the coordinator does not mind; of anybody
  // else who thinks so it has to hear. In one process nobody can think so wrongly.
  const bool by_itself = !down.reason || down.reason == caf::exit_reason::normal;
  if (by_itself && !self->state.parts.join) return;
  report_down(self, who, by_itself ? "it took itself for replaced" : describe(down.reason));
}

// ---- joining -------------------------------------------------------------------------------------------------------

void on_welcome(Self self, const ps::Welcome& welcome) {
  NodeState& state = self->state;
  if (state.phase != Phase::hello) return;
  state.phase = Phase::preparing;
  state.lease_ms = std::max<int64_t>(welcome.lease_ms, 100);
  state.parts.transport->detach(state.parts.self);
  state.parts.self = welcome.node;
  state.parts.join->welcomed(welcome);
  attach(caf::actor_cast<NodeActor>(self), state.parts.self, *state.parts.transport);
  state.parts.join->prepare(welcome, [to = caf::actor_cast<caf::actor>(self)](Result<Prepared> prepared) {
    caf::anon_send(to, std::make_shared<const NodeControl>(PrepareDone{std::move(prepared)}));
  });
}

void on_prepared(Self self, const Result<Prepared>& prepared) {
  NodeState& state = self->state;
  if (state.phase != Phase::preparing) return;
  if (!prepared) {
    say(self, ps::Leave{true});
    return end(self, tl::unexpected<Error>(prepared.error()));
  }
  state.phase = Phase::member;
  state.parts.spawn = prepared->spawn;
  state.ready = prepared->ready;
  say(self, *state.ready);
}

void on_finish(Self self) {
  if (self->state.phase == Phase::finishing || self->state.phase == Phase::ended) return;
  self->state.phase = Phase::finishing;
  self->state.finish_ms = now_ms(self);
  finish_if_done(self);
}

void beat(Self self) {
  NodeState& state = self->state;
  ps::Heartbeat beat = state.parts.join->measure();
  beat.number = ++state.beat.number;
  beat.routes = state.beat.routes;
  state.beat_ms = now_ms(self);
  say(self, beat);
}

void tick_joined(Self self) {
  NodeState& state = self->state;
  const int64_t silent_ms = now_ms(self) - state.heard_ms;
  if (state.phase != Phase::preparing && silent_ms > state.parts.join->give_up.count())
    return end(self, state.phase == Phase::hello
                         ? fail(ErrorKind::missing, cat("its coordinator has not answered for ", silent_ms / 1000, " s"))
                         : fail(ErrorKind::failed,
                                cat("nothing was heard of its coordinator for ", silent_ms / 1000, " s")));
  switch (state.phase) {
    case Phase::hello: say(self, state.parts.join->hello); break;
    case Phase::member:
      if (state.ready) say(self, *state.ready);
      if (state.leaving) say(self, ps::Leave{});
      [[fallthrough]];
    case Phase::preparing:
      if (now_ms(self) - state.beat_ms >= state.lease_ms / 10) beat(self);
      break;
    case Phase::finishing: finish_if_done(self); break;
    case Phase::ended: break;
  }
}

// ---- the actor ------------------------------------------------------------------------------------------------------

struct Handler {
  Self self;
  NodeState& state() const { return self->state; }
  bool joined() const { return state().parts.join.has_value(); }

  void operator()(const ps::Spawn& order) const {
    if (state().phase != Phase::member) return;
    start(self, order);
    say(self, ps::SpawnAck{order.who});
  }
  void operator()(const ps::DownAck& ack) const { state().unheard.erase(ack.who); }
  void operator()(const ps::Welcome& welcome) const {
    if (joined()) on_welcome(self, welcome);
  }
  // Number 0 answers Ready; a heartbeat's answer may be older than that.
  void operator()(const ps::HeartbeatAck& ack) const {
    if (ack.number == 0) state().ready.reset();
  }
  void operator()(const ps::Routes& routes) const {
    if (!joined() || routes.version <= state().beat.routes) return;
    state().beat.routes = routes.version;
    state().parts.join->set_routes(routes);
  }
  void operator()(const ps::Rejected& rejected) const {
    if (joined()) end(self, fail(ErrorKind::invalid, rejected.reason));
  }
  void operator()(const ps::Finish&) const {
    if (joined()) on_finish(self);
  }
  template <class Other>
  void operator()(const Other&) const {}
};

NodeActor::behavior_type node(Self self, std::shared_ptr<NodeParts> parts) {
  self->state.parts = std::move(*parts);
  const bool joins = self->state.parts.join.has_value();
  if (joins) self->state.phase = Phase::hello;
  self->state.heard_ms = now_ms(self);
  self->set_down_handler([self](caf::down_msg& down) { on_down(self, down); });
  self->set_exit_handler([self](caf::exit_msg& exit) {
    end_actors(self);
    self->quit(exit.reason);
  });
  if (joins) self->delayed_send(self, std::chrono::milliseconds(0), tick_atom::value);
  else tick_every(self, self->state.parts.retry_interval);
  return {
      [self](const ps::EnvelopePtr& envelope) {
        if (envelope->from.role != ps::Role::coordinator) return;
        // An older one's, which may only have been stopped. What came late of this one's is said again.
        if (envelope->generation < self->state.generation) return;
        self->state.generation = envelope->generation;
        self->state.heard_ms = now_ms(self);
        std::visit(Handler{self}, envelope->body);
      },
      [self](const NodeControlPtr& control) {
        if (const auto* done = std::get_if<PrepareDone>(control.get())) return on_prepared(self, done->prepared);
        self->state.leaving = true;
        if (self->state.phase == Phase::member) say(self, ps::Leave{});
        else end(self, fail(ErrorKind::cancelled, "it was asked to go before it had joined"));
      },
      [self](tick_atom) {
        for (const auto& [who, down] : self->state.unheard) say(self, down);
        if (self->state.parts.join) tick_joined(self);
        const auto often = std::chrono::milliseconds(std::max<int64_t>(self->state.lease_ms / 20, 20));
        const auto retry = self->state.parts.retry_interval;
        tick_every(self, self->state.parts.join ? std::min(retry, often) : retry);
      },
  };
}

}  // namespace

NodeActor spawn_node(caf::actor_system& system, NodeParts parts) {
  const ps::Endpoint self = parts.self;
  const std::shared_ptr<ps::Transport> transport = parts.transport;
  const auto actor = system.spawn(node, std::make_shared<NodeParts>(std::move(parts)));
  attach(actor, self, *transport);
  return actor;
}

}  // namespace troupe
