#include <troupe/actors/worker.h>

#include <troupe/actors/prompt_mail.h>
#include <troupe/actors/self.h>
#include <troupe/actors/step_computer.h>
#include <troupe/ps/metrics/trace_flow.h>

// States (WorkerCore's, seen from the mailbox):
//
//   working --Finish | replaced--> ended
//      |
//      +-- a task throws: ended with its text; the node hears it, the coordinator decides
//
// A step's tasks run in order on `compute`, which is the only thread that touches the StepComputer and gives all_reduce
// layers to the reducer as their gradients come. All answer with a TaskDone in the mailbox.

namespace troupe {
namespace {

struct WorkerState {
  const char* name = "worker";
  WorkerParts parts;
  std::unique_ptr<ps::WorkerCore> core;
  std::shared_ptr<StepComputer> computer;
  std::unique_ptr<Stage> stage;      ///< where it is one
  std::shared_ptr<Reducer> reducer;  ///< once there is something to reduce

  ~WorkerState() {
    if (parts.transport) parts.transport->detach(parts.options.self);
    // Whoever waits in a collective with us is woken before our threads are joined.
    if (reducer) reducer->abort("a worker of the group ended");
  }
};

using Self = WorkerActor::stateful_pointer<WorkerState>;

using Report = Reducer::Report;

Report reporter(Self self) {
  return [to = caf::actor_cast<caf::actor>(self)](TaskDone done) {
    caf::anon_send(to, std::make_shared<const TaskDone>(std::move(done)));
  };
}

/// For the compute thread.
Report reporter_here(Self self) {
  return [to = caf::actor_cast<caf::actor>(self)](TaskDone done) {
    report_here(to, std::make_shared<const TaskDone>(std::move(done)));
  };
}

// Runs `compute(computer, report)` on the compute executor: what came from outside (a source, an optimizer) may throw.
template <class Compute>
void submit(Self self, Compute compute) {
  self->state.parts.compute->submit(
      [computer = self->state.computer, report = reporter_here(self), compute = std::move(compute)] {
        try {
          compute(*computer, report);
        } catch (const std::exception& e) {
          report(TaskFailed{e.what()});
        }
      });
}

void send_one(Self self, ps::Envelope envelope) {
  const WorkerParts& parts = self->state.parts;
  const auto* push = std::get_if<ps::Push>(&envelope.body);
  const auto* pull = std::get_if<ps::Pull>(&envelope.body);
  if (!parts.actor_track || (!push && !pull)) return parts.transport->send(std::move(envelope));
  Span span(parts.actor_track, push ? "push" : "pull", push ? push->step : pull->step,
            {"parcel", push ? push->parcel : pull->parcel});
  if (push) span.event.flow_out = ps::flow_id(ps::Flow::push, parts.options.self.index, push->parcel, push->step);
  parts.transport->send(std::move(envelope));
}

void send(Self self, ps::Outbox outbox) {
  for (ps::Envelope& envelope : outbox) send_one(self, std::move(envelope));
}

// ---- tasks, one function a kind ------------------------------------------------------------------------

Reducer& reducer_of(Self self) {
  WorkerState& state = self->state;
  if (!state.reducer) state.reducer = state.parts.make_reducer();
  return *state.reducer;
}

void run(Self self, const ps::Prepare& task) {
  if (self->state.stage) return;  // its micro-batches are read as they begin
  submit(self, [task](StepComputer& computer, const Report&) { computer.prepare(task.work); });
}

void run(Self self, const ps::FindRows& task) {
  submit(self, [task](StepComputer& computer, const Report& report) { report(computer.find_rows(task.work)); });
}

void run(Self self, const ps::Forward& task) {
  if (self->state.stage) return;  // begins when all weights are there
  submit(self, [task, weights = self->state.core->weights(task.work)](StepComputer& computer, const Report&) {
    computer.forward(task, weights);
  });
}

void run(Self self, const ps::Backward& task) {
  if (self->state.stage) return send(self, self->state.stage->begin(task.work, self->state.core->weights(task.work)));
  if (!task.buckets.empty()) reducer_of(self);
  submit(self, [task, weights = self->state.core->weights(task.work), reducer = self->state.reducer](
                   StepComputer& computer, const Report& report) {
    computer.backward(task, weights, reducer.get(), report);
  });
}

void run(Self self, const ps::Evaluate& task) {
  if (self->state.stage) return send(self, self->state.stage->begin(task.work, self->state.core->weights(task.work)));
  submit(self, [task, weights = self->state.core->weights(task.work)](
                   StepComputer& computer, const Report& report) { report(computer.evaluate(task, weights)); });
}

void run(Self self, const ps::Bucket& bucket) { reducer_of(self).reduce(bucket, reporter(self)); }

void run(Self self, const ps::ApplyLocal& task) { reducer_of(self).apply(task, reporter(self)); }

void run(Self self, const ps::Fetch& task) { reducer_of(self).fetch(task, reporter(self)); }

void run(Self self, const ps::MakeGroup& task) { reducer_of(self).make_group(task, reporter(self)); }

void run(Self self, const ps::JoinGroup& task) { reducer_of(self).join_group(task, reporter(self)); }

void run(Self self, const ps::LeaveGroup&) { reducer_of(self).leave_group(reporter(self)); }

void run(Self self, const ps::Broadcast& task) { reducer_of(self).broadcast(task, reporter(self)); }

// ---- the actor -------------------------------------------------------------------------------------------

void carry(Self self, ps::WorkerCore::Effects effects) {
  send(self, std::move(effects.send));
  for (const ps::Task& task : effects.tasks) std::visit([self](const auto& t) { run(self, t); }, task);
  if (effects.finished) self->quit();
}

struct TaskHandler {
  Self self;
  ps::WorkerCore& core() const { return *self->state.core; }

  void operator()(const GradientDone& d) const {
    carry(self, core().gradient_ready(d.step, d.layer, d.gradient, d.sum_of_squares, d.finite));
  }
  void operator()(const BackwardDone& d) const {
    carry(self, core().backward_done(d.step, d.stats, d.compute_s, d.wait_s));
  }
  void operator()(const EvaluateDone& d) const { carry(self, core().evaluated(d.stats, d.compute_s)); }
  void operator()(const ReduceDone& d) const {
    carry(self, core().reduced(d.step, d.layer, d.gradient, d.sum_of_squares, d.finite));
  }
  void operator()(const ApplyDone& d) const {
    for (const auto& [layer, local] : d.layers) carry(self, core().applied_locally(d.step, layer, local));
  }
  void operator()(const FetchDone& d) const { carry(self, core().fetched(d.layers)); }
  void operator()(const ps::HostSum& d) const { carry(self, core().summed_on_host(d)); }
  void operator()(const ps::HostWeights& d) const { carry(self, core().weights_given(d)); }
  void operator()(const GroupKnown& d) const { carry(self, core().group_known(d.generation, d.id)); }
  void operator()(const GroupJoined& d) const { carry(self, core().group_joined(d.generation, d.from)); }
  void operator()(const StageTaskDone& d) const { send(self, self->state.stage->done(d)); }
  void operator()(const StageSum& d) const { send(self, self->state.stage->done(d)); }
  void operator()(const RowsDone& d) const { carry(self, core().rows_found(d.work, d.rows)); }
  void operator()(const TaskFailed& d) const { self->quit(caf::make_error(caf::sec::runtime_error, d.what)); }
};

std::unique_ptr<Stage> make_stage(Self self) {
  const WorkerParts& parts = self->state.parts;
  StageParts stage = *parts.stage;
  stage.options.self = parts.options.self;
  stage.options.coordinator = parts.options.coordinator;
  stage.compute = parts.compute;
  stage.sampler = parts.sampler;
  stage.seed = parts.seed;
  stage.measure_norm = parts.options.clip_norm > 0;
  stage.slow_down = parts.slow_down;
  stage.report = reporter(self);
  return std::make_unique<Stage>(std::move(stage));
}

// A stage watches its neighbours, even where nothing is ever lost.
std::chrono::milliseconds tick_interval(const WorkerParts& parts) {
  if (parts.retry_interval.count() > 0 || !parts.stage) return parts.retry_interval;
  return std::chrono::milliseconds(500);
}

WorkerActor::behavior_type worker(Self self, std::shared_ptr<WorkerParts> given) {
  self->state.parts = std::move(*given);
  WorkerParts& parts = self->state.parts;
  self->state.core =
      std::make_unique<ps::WorkerCore>(parts.options, parts.source->layers(), parts.source->gradient_order());
  self->state.computer = std::make_shared<StepComputer>(parts);
  if (parts.stage) self->state.stage = make_stage(self);
  end_on_exception(self);
  tick_every(self, tick_interval(parts));
  return {
      [self](const ps::EnvelopePtr& envelope) {
        const auto& stage = self->state.stage;
        if (stage && for_stage(*envelope)) return send(self, stage->handle(*envelope));
        ps::WorkerCore::Effects effects = self->state.core->handle(*envelope);
        if (stage && std::holds_alternative<ps::Membership>(envelope->body))
          stage->obey(self->state.core->membership(), self->state.core->membership().generation);
        carry(self, std::move(effects));
      },
      [self](const TaskDonePtr& done) { std::visit(TaskHandler{self}, *done); },
      [self](tick_atom) {
        const WorkerParts& parts = self->state.parts;
        if (parts.retry_interval.count() > 0) carry(self, self->state.core->tick());
        if (const auto& stage = self->state.stage) {
          if (parts.retry_interval.count() > 0) send(self, stage->tick());
          send(self, stage->watch(now_ms(self)));
        }
        tick_every(self, tick_interval(parts));
      },
  };
}

}  // namespace

WorkerActor spawn_worker(caf::actor_system& system, WorkerParts parts) {
  const ps::Endpoint self = parts.options.self;
  const std::shared_ptr<ps::Transport> transport = parts.transport;
  const auto actor = system.spawn(worker, std::make_shared<WorkerParts>(std::move(parts)));
  attach_prompt(actor, self, *transport);
  return actor;
}

}  // namespace troupe
