#include <troupe/actors/coordinator.h>

// States: CoordinatorCore's. After the run has ended the actor stays, to tell whoever still asks; its cluster
// ends it.

namespace troupe {
namespace {

struct CoordinatorState {
  const char* name = "coordinator";
  CoordinatorParts parts;
  ~CoordinatorState() {
    if (parts.transport) parts.transport->detach({ps::Role::coordinator, 0, 1});
  }
};

using Self = CoordinatorActor::stateful_pointer<CoordinatorState>;

void write(Self self, ps::CheckpointRequest request) {
  CoordinatorParts& parts = self->state.parts;
  const auto answer = [to = caf::actor_cast<caf::actor>(self)](Status status) {
    caf::anon_send(to, std::make_shared<const Control>(CheckpointDone{std::move(status)}));
  };
  if (!parts.write_checkpoint) {
    answer({});
    return;
  }
  parts.files->submit([write = parts.write_checkpoint, request = std::move(request), answer] {
    try {
      answer(write(request));
    } catch (const std::exception& e) {
      answer(fail(ErrorKind::failed, e.what()));
    }
  });
}

void carry(Self self, ps::CoordinatorCore::Effects effects) {
  CoordinatorParts& parts = self->state.parts;
  if (effects.routes && parts.set_routes) parts.set_routes(*effects.routes);
  for (ps::Envelope& envelope : effects.send) parts.transport->send(std::move(envelope));
  for (ps::CheckpointRequest& request : effects.checkpoints) write(self, std::move(request));
  for (const std::string& event : effects.events) parts.observer->on_event(event);
  for (const ps::StepReport& report : effects.steps) parts.observer->on_step(report);
  for (const ps::EvaluationReport& report : effects.evaluations) parts.observer->on_evaluation(report);
  if (effects.finished) parts.observer->on_finished(*effects.finished);
  if (parts.all_gone && parts.core->all_gone()) parts.all_gone();
}

ps::CoordinatorCore& core_of(Self self) {
  ps::CoordinatorCore& core = *self->state.parts.core;
  core.set_now_ms(now_ms(self));
  return core;
}

struct ControlHandler {
  Self self;
  ps::CoordinatorCore& core() const { return core_of(self); }

  void operator()(const StartRun&) const { carry(self, core().start()); }
  void operator()(const CheckpointDone& done) const { carry(self, core().checkpoint_written(done.status)); }
  void operator()(const StopRun&) const { carry(self, core().stop()); }
  void operator()(const ChangePolicies& change) const {
    auto effects = core().change_policies(change.rules);
    if (effects) carry(self, std::move(*effects));
    else self->state.parts.observer->on_event("policies were not changed: " + effects.error().message);
  }
  void operator()(const LinkLost& lost) const { core().link_lost(lost.node); }
};

CoordinatorActor::behavior_type coordinator(Self self, std::shared_ptr<CoordinatorParts> parts) {
  self->state.parts = std::move(*parts);
  end_on_exception(self);
  tick_every(self, self->state.parts.retry_interval);
  return {
      [self](const ps::EnvelopePtr& envelope) { carry(self, core_of(self).handle(*envelope)); },
      [self](const ControlPtr& control) { std::visit(ControlHandler{self}, *control); },
      [self](tick_atom) {
        carry(self, core_of(self).tick());
        tick_every(self, self->state.parts.retry_interval);
      },
  };
}

}  // namespace

CoordinatorActor spawn_coordinator(caf::actor_system& system, CoordinatorParts parts) {
  const ps::Endpoint self = {ps::Role::coordinator, 0, 1};
  const std::shared_ptr<ps::Transport> transport = parts.transport;
  const auto actor = system.spawn(coordinator, std::make_shared<CoordinatorParts>(std::move(parts)));
  attach(actor, self, *transport);
  caf::anon_send(actor, std::make_shared<const Control>(StartRun{}));  // it can be answered now
  return actor;
}

}  // namespace troupe
