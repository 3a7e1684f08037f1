#include <troupe/actors/worker.h>

#include <algorithm>
#include <optional>
#include <thread>

#include <troupe/actors/measure.h>
#include <troupe/actors/prompt_mail.h>
#include <troupe/kernels/base/random.h>
#include <troupe/ps/metrics/trace_flow.h>
#include <troupe/ps/param/rows.h>

// States (WorkerCore's, seen from the mailbox):
//
//   working --Finish | replaced--> ended
//      |
//      +-- a task throws: ended with its text; the node hears it, the coordinator decides
//
// A step's tasks run in order on `compute`, which is the only thread that touches the source and gives all_reduce
// layers to the reducer as their gradients come. All answer with a TaskDone in the mailbox.

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

/// What a step's tasks share; only the compute executor touches it.
struct RunningStep {
  uint64_t work = 0;  ///< its number
  std::vector<uint32_t> samples;
  Clock::duration computing{};
};

/// Everything the compute executor's tasks need, kept alive by them.
struct Computer {
  explicit Computer(const WorkerParts& parts)
      : source(parts.source),
        measuring(dynamic_cast<MeasuringSource*>(source.get())),
        sampler(parts.sampler),
        seed(parts.seed),
        worker(parts.options.self.index),
        slow_down(parts.slow_down),
        measure_norm(parts.options.clip_norm > 0),
        track(parts.compute_track) {
    if (measuring) measuring->measure_gradients(measure_norm);
  }

  std::shared_ptr<GradientSource> source;
  MeasuringSource* measuring;  ///< `source`, where it is one
  ps::Sampler sampler;
  uint64_t seed;
  uint32_t worker;
  SlowDown slow_down;
  bool measure_norm;
  Track track;
  Stream stream;
  RunningStep running;
  Clock::time_point idle_since = Clock::now();

  Batch batch(const ps::Work& work) {
    if (running.work != work.number) {
      running.work = work.number;
      running.samples.resize(static_cast<size_t>(work.range.count));
      sampler.indices(work.range.epoch, work.range.begin, running.samples);
    }
    const uint64_t piece = derive_seed(seed, "step", static_cast<uint64_t>(work.step));
    return {running.samples, derive_seed(piece, "worker", worker), work.loss_scale};
  }
};

struct WorkerState {
  const char* name = "worker";
  WorkerParts parts;
  std::unique_ptr<ps::WorkerCore> core;
  std::shared_ptr<Computer> computer;
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

// Runs what came from outside (a source, an optimizer) and may throw.
template <class Task>
void guard(const Report& report, const Task& task) {
  try {
    task(report);
  } catch (const std::exception& e) {
    report(TaskFailed{e.what()});
  }
}

void submit(Self self, Executor& executor, std::function<void(const Report&)> task) {
  executor.submit([report = reporter_here(self), task = std::move(task)] { guard(report, task); });
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

void run(Self self, const ps::Prepare& task) {
  if (self->state.stage) return;  // its micro-batches are read as they begin
  submit(self, *self->state.parts.compute, [computer = self->state.computer, task](const Report&) {
    const Span span(computer->track, "prepare", task.work.step);
    const auto begin = Clock::now();
    computer->source->prepare(computer->batch(task.work));
    computer->running.computing += Clock::now() - begin;
  });
}

void run(Self self, const ps::FindRows& task) {
  submit(self, *self->state.parts.compute, [computer = self->state.computer, task](const Report& report) {
    const Span span(computer->track, "find rows", task.work.step);
    const auto begin = Clock::now();
    GradientSource& source = *computer->source;
    RowsDone done{task.work.number, std::vector<Tensor>(source.layers().size())};
    const Batch batch = computer->batch(task.work);
    for (size_t layer = 0; layer < done.rows.size(); ++layer)
      if (ps::by_rows(source.layers()[layer])) done.rows[layer] = source.rows(batch, layer);
    computer->running.computing += Clock::now() - begin;
    report(std::move(done));
  });
}

void run(Self self, const ps::Forward& task) {
  if (self->state.stage) return;  // begins when all weights are there
  submit(self, *self->state.parts.compute,
         [computer = self->state.computer, task, weights = self->state.core->weights(task.work)](const Report&) {
           Span span(computer->track, "forward", task.work.step, {"first", static_cast<int64_t>(task.first)});
           span.event.args[2] = {"last", static_cast<int64_t>(task.last)};
           const auto begin = Clock::now();
           computer->source->forward(computer->batch(task.work), weights, task.first, task.last);
           computer->running.computing += Clock::now() - begin;
         });
}

Reducer& reducer_of(Self self) {
  WorkerState& state = self->state;
  if (!state.reducer) state.reducer = state.parts.make_reducer();
  return *state.reducer;
}

/// Where the gradients of a backward pass go: into their bucket, which is reduced once it is full, or to the actor.
class Outlet {
 public:
  Outlet(Computer& computer, const ps::Backward& task, std::shared_ptr<Reducer> reducer, const Report& report)
      : computer_(computer),
        step_(task.work.step),
        filler_(task.buckets),
        reducer_(std::move(reducer)),
        report_(report) {}

  void take(size_t index, Tensor gradient) {
    const auto layer = static_cast<ps::LayerId>(index);
    const Span span(computer_.track, "gradient ready", step_, {"layer", layer});
    const auto [squares, finite] = measured(layer, gradient);
    finite_ = finite_ && finite;
    if (!finite_ || !filler_.take(layer, gradient))
      return report_(GradientDone{step_, layer, std::move(gradient), squares, finite});
    for (ps::Bucket bucket = filler_.next(); !bucket.empty(); bucket = filler_.next())
      reducer_->reduce(std::move(bucket), report_);
  }

 private:
  std::pair<double, bool> measured(ps::LayerId layer, const Tensor& gradient) {
    const auto known = computer_.measuring ? computer_.measuring->measured() : std::nullopt;
    if (known) return {known->sum_of_squares, known->finite};
    if (gradient.device().kind != DeviceKind::cpu) return reducer_->measure(layer, gradient);
    return measure(computer_.stream, ops::cpu_ops(), computer_.source->layers()[layer], gradient,
                   computer_.measure_norm);
  }

  Computer& computer_;
  ps::Step step_;
  ps::BucketFiller filler_;
  std::shared_ptr<Reducer> reducer_;
  const Report& report_;
  bool finite_ = true;  ///< so far; nothing is reduced of a step that is not
};

void run(Self self, const ps::Backward& task) {
  if (self->state.stage) return send(self, self->state.stage->begin(task.work, self->state.core->weights(task.work)));
  if (!task.buckets.empty()) reducer_of(self);
  submit(self, *self->state.parts.compute,
         [computer = self->state.computer, task, weights = self->state.core->weights(task.work),
          reducer = self->state.reducer](const Report& report) {
           Computer& c = *computer;
           const ps::Step step = task.work.step;
           const Span span(c.track, "backward", step);
           const auto begin = Clock::now();
           Outlet outlet(c, task, reducer, report);
           c.source->leave_on_device(task.stay);
           const StepStats stats =
               c.source->backward(c.batch(task.work), weights, [&](size_t layer, Tensor gradient) {
                 outlet.take(layer, std::move(gradient));
               });
           auto end = Clock::now();
           c.running.computing += end - begin;
           const auto extra = c.running.computing * (c.slow_down.factor - 1) + c.slow_down.extra;
           if (extra.count() > 0) {
             std::this_thread::sleep_for(extra);
             c.running.computing += Clock::now() - end;
             end = Clock::now();
           }
           report(BackwardDone{step, stats, seconds(c.running.computing),
                               seconds(end - c.idle_since - c.running.computing)});
           c.running = {};
           c.idle_since = end;
         });
}

void run(Self self, const ps::Evaluate& task) {
  if (self->state.stage) return send(self, self->state.stage->begin(task.work, self->state.core->weights(task.work)));
  submit(self, *self->state.parts.compute,
         [computer = self->state.computer, task, weights = self->state.core->weights(task.work)](const Report& report) {
           const Span span(computer->track, "evaluate", task.work.step);
           const auto begin = Clock::now();
           std::vector<uint32_t> samples(static_cast<size_t>(task.work.range.count));
           for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<uint32_t>(task.work.range.begin + i);
           const StepStats stats = computer->source->evaluate(samples, weights);
           computer->idle_since = Clock::now();
           report(EvaluateDone{stats, seconds(Clock::now() - begin)});
         });
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
  self->state.computer = std::make_shared<Computer>(parts);
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
