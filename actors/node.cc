#include <troupe/actors/node.h>

#include <map>
#include <set>

// States:
//
//   watching --exit--> its actors are told to end --> ended
//
// An actor that ends with a reason other than a normal exit is reported Down until the coordinator says it
// has heard.

namespace troupe {
namespace {

struct NodeState {
  const char* name = "node";
  NodeParts parts;
  std::map<caf::actor_addr, ps::Endpoint> watched;
  std::set<ps::Endpoint> spawned;
  std::map<ps::Endpoint, ps::Down> unheard;
  ~NodeState() {
    if (parts.transport) parts.transport->detach(parts.self);
  }
};

using Self = NodeActor::stateful_pointer<NodeState>;

void say(Self self, ps::Message body) {
  const NodeParts& parts = self->state.parts;
  parts.transport->send({parts.self, parts.coordinator, 0, std::move(body)});
}

void report_down(Self self, const ps::Endpoint& who, const std::string& reason) {
  self->state.unheard[who] = {who, reason};
  say(self, self->state.unheard[who]);
}

// What its actors are made of is the caller's, and may throw.
void start(Self self, const ps::Endpoint& who) {
  if (!self->state.spawned.insert(who).second) return;
  try {
    const caf::actor child = self->state.parts.spawn(who);
    self->monitor(child);
    self->state.watched.emplace(child.address(), who);
  } catch (const std::exception& e) {
    report_down(self, who, cat("it cannot be started: ", e.what()));
  }
}

void on_down(Self self, const caf::down_msg& down) {
  auto found = self->state.watched.find(down.source);
  if (found == self->state.watched.end()) return;
  const ps::Endpoint who = found->second;
  self->state.watched.erase(found);
  if (!down.reason || down.reason == caf::exit_reason::normal) return;
  report_down(self, who, describe(down.reason));
}

NodeActor::behavior_type node(Self self, std::shared_ptr<NodeParts> parts) {
  self->state.parts = std::move(*parts);
  self->set_down_handler([self](caf::down_msg& down) { on_down(self, down); });
  self->set_exit_handler([self](caf::exit_msg& exit) {
    for (const auto& [address, who] : self->state.watched)
      if (auto child = caf::actor_cast<caf::actor>(address)) self->send_exit(child, caf::exit_reason::kill);
    self->quit(exit.reason);
  });
  tick_every(self, self->state.parts.retry_interval);
  return {
      [self](const ps::EnvelopePtr& envelope) {
        if (const auto* spawn = std::get_if<ps::Spawn>(&envelope->body)) {
          start(self, spawn->who);
          say(self, ps::SpawnAck{spawn->who});
        } else if (const auto* ack = std::get_if<ps::DownAck>(&envelope->body)) {
          self->state.unheard.erase(ack->who);
        }
      },
      [self](tick_atom) {
        for (const auto& [who, down] : self->state.unheard) say(self, down);
        tick_every(self, self->state.parts.retry_interval);
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
