#include <troupe/actors/replica.h>

#include <stdexcept>

#include <troupe/actors/self.h>
#include <troupe/actors/serving.h>

// States:
//
//   following --take_over--> serving (serving.h) --Finish | fenced--> ended
//       +-------Finish | it cannot take over--------------------------^

namespace troupe {
namespace {

struct ReplicaState {
  const char* name = "replica";
  ReplicaParts parts;
  std::unique_ptr<ps::ReplicaCore> core;
  std::unique_ptr<Serving> serving;  ///< once it has taken over
  ~ReplicaState() {
    if (parts.transport) parts.transport->detach(parts.options.self);
  }
};

using Self = ReplicaActor::stateful_pointer<ReplicaState>;

void carry(Self self, ps::Outbox outbox) {
  for (ps::Envelope& envelope : outbox) self->state.parts.transport->send(std::move(envelope));
}

void take(Self self, const ps::EnvelopePtr& envelope) {
  if (self->state.serving) {
    if (!self->state.serving->take(envelope, caf::actor_cast<caf::actor>(self))) self->quit();
  } else {
    carry(self, self->state.core->handle(*envelope));
    if (self->state.core->finished()) self->quit();
  }
}

// The twin's shard itself, or one on the device that goes on from it.
std::function<std::unique_ptr<ps::Shard>(const ps::ShardOptions&)> made_from(std::unique_ptr<ps::Shard> twin,
                                                                             ps::Shard::InitialState initial,
                                                                             std::shared_ptr<ps::ShardStore> store) {
  // What a std::function captures can be copied.
  const auto held = std::make_shared<std::unique_ptr<ps::Shard>>(std::move(twin));
  return [held, initial = std::move(initial), store = std::move(store)](const ps::ShardOptions& options) {
    if (!options.device) return std::move(*held);
    auto made = ps::Shard::make_from((*held)->image(), options, store, initial);
    if (!made) throw std::runtime_error(cat("the replica's image cannot be: ", made.error().message));
    return std::move(*made);
  };
}

void begin_serving(Self self, const ps::Endpoint& server) {
  ReplicaState& state = self->state;
  ServerParts parts = state.parts.successor(server);
  auto shard = state.core->take_over(server, parts.store);
  state.parts.transport->detach(state.parts.options.self);
  if (!shard) {
    state.parts.transport->detach(server);
    self->quit(caf::make_error(caf::sec::runtime_error, shard.error().message));
    return;
  }
  parts.make_shard = made_from(std::move(*shard), state.parts.options.initial, parts.store);
  parts.since = state.core->generation();
  state.serving = std::make_unique<Serving>(std::move(parts));
}

void obey(Self self, const ServerControl& control) {
  if (const auto* takes_over = std::get_if<TakeOver>(&control)) {
    if (!self->state.serving) begin_serving(self, takes_over->server);
  } else if (self->state.serving) {
    if (!self->state.serving->obey(control, caf::actor_cast<caf::actor>(self))) self->quit();
  }
}

ReplicaActor::behavior_type replica(Self self, std::shared_ptr<ReplicaParts> parts) {
  self->state.parts = std::move(*parts);
  self->state.core = std::make_unique<ps::ReplicaCore>(self->state.parts.options);
  end_on_exception(self);
  tick_every(self, self->state.parts.retry_interval);
  return {
      [self](const ps::EnvelopePtr& envelope) { take(self, envelope); },
      [self](const ServerControlPtr& control) { obey(self, *control); },
      [self](tick_atom) {
        if (self->state.serving)
          self->state.serving->tick(caf::actor_cast<caf::actor>(self));
        else
          carry(self, self->state.core->tick());
        tick_every(self, self->state.parts.retry_interval);
      },
  };
}

}  // namespace

ReplicaActor spawn_replica(caf::actor_system& system, ReplicaParts parts) {
  const ps::Endpoint self = parts.options.self;
  const std::shared_ptr<ps::Transport> transport = parts.transport;
  const auto actor = system.spawn(replica, std::make_shared<ReplicaParts>(std::move(parts)));
  attach(actor, self, *transport);
  return actor;
}

void take_over(const ReplicaActor& replica, const ps::Endpoint& server, ps::Transport& transport) {
  caf::anon_send(caf::actor_cast<caf::actor>(replica), std::make_shared<const ServerControl>(TakeOver{server}));
  attach(replica, server, transport);
}

}  // namespace troupe
