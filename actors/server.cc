#include <troupe/actors/server.h>

// States:
//
//   serving --Finish | a newer incarnation owns the store--> ended

namespace troupe {
namespace {

struct ServerState {
  const char* name = "server";
  ServerParts parts;
  ~ServerState() {
    if (parts.transport) parts.transport->detach(parts.options.self);
  }
};

using Self = ServerActor::stateful_pointer<ServerState>;

void carry(Self self, ps::Outbox outbox) {
  for (ps::Envelope& envelope : outbox) self->state.parts.transport->send(std::move(envelope));
}

ServerActor::behavior_type server(Self self, std::shared_ptr<ServerParts> parts) {
  self->state.parts = std::move(*parts);
  end_on_exception(self);
  tick_every(self, self->state.parts.retry_interval);
  return {
      [self](const ps::EnvelopePtr& envelope) {
        if (std::holds_alternative<ps::Finish>(envelope->body)) {
          self->quit();
          return;
        }
        carry(self, self->state.parts.shard->handle(*envelope));
        if (self->state.parts.shard->fenced()) self->quit();
      },
      [self](tick_atom) {
        carry(self, self->state.parts.shard->tick());
        tick_every(self, self->state.parts.retry_interval);
      },
  };
}

}  // namespace

ServerActor spawn_server(caf::actor_system& system, ServerParts parts) {
  const ps::Endpoint self = parts.options.self;
  const std::shared_ptr<ps::Transport> transport = parts.transport;
  const auto actor = system.spawn(server, std::make_shared<ServerParts>(std::move(parts)));
  attach(actor, self, *transport);
  return actor;
}

}  // namespace troupe
