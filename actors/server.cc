#include <troupe/actors/server.h>

#include <troupe/actors/prompt_mail.h>
#include <troupe/actors/self.h>
#include <troupe/actors/serving.h>

// States:
//
//   serving --Finish | a newer incarnation owns the store--> ended

namespace troupe {
namespace {

struct ServerState {
  const char* name = "server";
  std::unique_ptr<Serving> serving;
};

using Self = ServerActor::stateful_pointer<ServerState>;

ServerActor::behavior_type server(Self self, std::shared_ptr<ServerParts> parts) {
  self->state.serving = std::make_unique<Serving>(std::move(*parts));
  end_on_exception(self);
  tick_every(self, self->state.serving->retry_interval());
  return {
      [self](const ps::EnvelopePtr& envelope) {
        if (!self->state.serving->take(envelope, caf::actor_cast<caf::actor>(self))) self->quit();
      },
      [self](const ServerControlPtr& control) {
        if (!self->state.serving->obey(*control, caf::actor_cast<caf::actor>(self))) self->quit();
      },
      [self](tick_atom) {
        self->state.serving->tick(caf::actor_cast<caf::actor>(self));
        tick_every(self, self->state.serving->retry_interval());
      },
  };
}

}  // namespace

ServerActor spawn_server(caf::actor_system& system, ServerParts parts) {
  const ps::Endpoint self = parts.options.self;
  const std::shared_ptr<ps::Transport> transport = parts.transport;
  const auto actor = system.spawn(server, std::make_shared<ServerParts>(std::move(parts)));
  attach_prompt(actor, self, *transport);
  return actor;
}

}  // namespace troupe
