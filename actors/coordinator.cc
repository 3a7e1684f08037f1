#include <troupe/actors/coordinator.h>

#include <troupe/actors/self.h>

// States: CoordinatorCore's. After the run has ended the actor stays, to tell whoever still asks; its cluster
// ends it.

namespace troupe {
namespace {

struct CoordinatorState {
  const char* name = "coordinator";
  CoordinatorParts parts;
  int64_t ahead_ms = 0;  ///< the coordinator's clock is by so much ahead of the actor's: it goes on where it stood
  ~CoordinatorState() {
    if (parts.transport) parts.transport->detach({ps::Role::coordinator, 0, 1});
  }
};

using Self = CoordinatorActor::stateful_pointer<CoordinatorState>;
using Input = ps::CoordinatorInput;

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

void read(Self self, ps::ReloadRequest request) {
  CoordinatorParts& parts = self->state.parts;
  parts.files->submit([read = parts.read_checkpoint, request = std::move(request),
                       to = caf::actor_cast<caf::actor>(self)] {
    const auto answer = [&](Result<ps::Reload> reload) {
      caf::anon_send(to, std::make_shared<const Control>(ReloadDone{request.server, std::move(reload)}));
    };
    try {
      answer(read(request));
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
  for (ps::ReloadRequest& request : effects.reloads) read(self, std::move(request));
  for (const std::string& piece : effects.news) parts.observer->on_news(piece);
  for (const std::string& event : effects.events) parts.observer->on_event(event);
  for (const ps::StepReport& report : effects.steps) parts.observer->on_step(report);
  for (const ps::EvaluationReport& report : effects.evaluations) parts.observer->on_evaluation(report);
  if (effects.finished) parts.observer->on_finished(*effects.finished);
  if (parts.all_gone && parts.core->all_gone()) parts.all_gone();
}

/// Another has this one's place: it ends without a word to anybody.
void give_way(Self self, const std::string& why) {
  CoordinatorParts& parts = self->state.parts;
  ps::RunResult result;
  result.outcome = ps::Outcome::failed;
  result.failure = why;
  result.superseded = true;
  parts.journal.reset();
  parts.observer->on_finished(result);
  if (parts.all_gone) parts.all_gone();
  self->quit();
}

/// A successor must know all that anybody could have seen the effects of.
bool keep(Self self, const Input& input) {
  CoordinatorParts& parts = self->state.parts;
  if (!parts.journal) return true;
  Status kept = parts.journal->long_enough() ? parts.journal->begin_anew(*parts.core) : Status{};
  if (kept) kept = parts.journal->append(input);
  if (kept) return true;
  if (kept.error().kind == ErrorKind::cancelled) {
    give_way(self, kept.error().message);
    return false;
  }
  const Status gone = parts.journal->discard();  // with a gap it would mislead
  parts.journal.reset();
  std::string event = "the journal cannot be written, so that no other process can go on as the coordinator: ";
  event += kept.error().message;
  if (!gone) event += "; and what there is of it cannot be removed, do not use it: " + gone.error().message;
  parts.observer->on_event(event);
  return true;
}

void tell(Self self, Input::What what) {
  const Input input{now_ms(self) + self->state.ahead_ms, std::move(what)};
  if (!keep(self, input)) return;
  auto effects = ps::tell(*self->state.parts.core, input);
  if (effects) carry(self, std::move(*effects));
  else self->state.parts.observer->on_event("policies were not changed: " + effects.error().message);
}

struct ControlHandler {
  Self self;

  void operator()(const StartRun&) const {
    if (self->state.parts.recovered) tell(self, Input::Recovered{});
    else tell(self, Input::Start{});
  }
  void operator()(const CheckpointDone& done) const { tell(self, Input::CheckpointWritten{done.status}); }
  void operator()(const ReloadDone& done) const { tell(self, Input::CheckpointRead{done.server, done.read}); }
  void operator()(const StopRun&) const { tell(self, Input::Stop{}); }
  void operator()(const ChangePolicies& change) const { tell(self, Input::ChangePolicies{change.rules}); }
  void operator()(const LinkLost& lost) const { tell(self, Input::LinkLost{lost.node}); }
};

CoordinatorActor::behavior_type coordinator(Self self, std::shared_ptr<CoordinatorParts> parts) {
  self->state.parts = std::move(*parts);
  if (self->state.parts.recovered) self->state.ahead_ms = self->state.parts.core->now_ms() - now_ms(self);
  end_on_exception(self);
  tick_every(self, self->state.parts.retry_interval);
  return {
      [self](const ps::EnvelopePtr& envelope) { tell(self, Input::Heard{envelope}); },
      [self](const ControlPtr& control) { std::visit(ControlHandler{self}, *control); },
      [self](tick_atom) {
        tell(self, Input::Tick{});
        tick_every(self, self->state.parts.retry_interval);
      },
  };
}

}  // namespace

CoordinatorActor spawn_coordinator(caf::actor_system& system, CoordinatorParts parts) {
  const ps::Endpoint self = {ps::Role::coordinator, 0, 1};
  const std::shared_ptr<ps::Transport> transport = parts.transport;
  const bool recovered = parts.recovered;
  const auto actor = system.spawn(coordinator, std::make_shared<CoordinatorParts>(std::move(parts)));
  const auto start = [&] { caf::anon_send(actor, std::make_shared<const Control>(StartRun{})); };
  if (recovered) start();  // the first that it is told
  attach(actor, self, *transport);
  if (!recovered) start();  // it can be answered now
  return actor;
}

}  // namespace troupe
