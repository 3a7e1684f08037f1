#include <troupe/actors/stage.h>

#include <thread>

#include <troupe/actors/measure.h>
#include <troupe/kernels/base/random.h>
#include <troupe/kernels/ops/ops.h>
#include <troupe/ps/metrics/trace_flow.h>

// States (StageCore's, seen from the worker):
//
//   idle --begin--> running --the last action has run, the last gradient is complete--> idle
//
// Of an asynchronous schedule several pieces of work run, each with the weights that it began with.
//
// The executor runs one action at a time, in the order that StageCore gives them, and answers each with what it made.
// A layer's gradient takes a second way through it, once complete: where the other stage's part of a tied layer is
// added and what clipping asks of it is measured. The end of the work goes the same way, behind the last gradient.

namespace troupe {
namespace {

double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

const char* name_of(ps::ActionKind kind) {
  return kind == ps::ActionKind::forward          ? "forward"
         : kind == ps::ActionKind::backward_input ? "backward input"
                                                  : "backward weight";
}

// An arrow along an activation: from the chunk that made it to the one that reads it.
uint64_t arrow(uint32_t replica, const ps::StageTask& task, uint32_t reader) {
  const uint64_t backward = task.kind == ps::ActionKind::backward_input;
  const uint64_t what = (uint64_t{task.micro_batch} << 32) | (uint64_t{reader} << 1) | backward;
  return ps::flow_id(ps::Flow::activation, replica, what, task.work.step);
}

}  // namespace

bool for_stage(const ps::Envelope& envelope) {
  return std::holds_alternative<ps::Activation>(envelope.body) ||
         std::holds_alternative<ps::ActivationAck>(envelope.body);
}

/// What the executor's tasks share; only its thread touches it.
struct Stage::Computer {
  explicit Computer(const StageParts& parts)
      : source(parts.source),
        sampler(parts.sampler),
        seed(parts.seed),
        replica(parts.options.self.index / parts.options.plan.schedule->stages),
        measure_norm(parts.measure_norm),
        slow_down(parts.slow_down),
        track(parts.track),
        report(parts.report) {
    const ps::Schedule& schedule = *parts.options.plan.schedule;
    last_chunk = schedule.chunks - 1;
    const uint32_t stage = parts.options.self.index % schedule.stages;
    for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk)
      part_of.push_back(schedule.stage_of[chunk] == stage ? parts_held++ : 0);
  }

  std::shared_ptr<StageSource> source;
  ps::Sampler sampler;
  uint64_t seed;
  uint32_t replica;
  bool measure_norm;
  SlowDown slow_down;
  Track track;
  std::function<void(TaskDone)> report;
  uint32_t last_chunk = 0;
  uint32_t parts_held = 0;
  std::vector<uint32_t> part_of;  ///< by chunk: which of the source's parts
  Stream stream;
  std::vector<uint32_t> samples;

  MicroBatch micro_batch(const ps::StageTask& task) {
    const bool train = task.work.kind == ps::Work::Kind::train;
    samples.resize(static_cast<size_t>(task.samples.count));
    if (train)
      sampler.indices(task.samples.epoch, task.samples.begin, samples);
    else
      for (size_t i = 0; i < samples.size(); ++i)
        samples[i] = static_cast<uint32_t>(task.samples.begin + static_cast<int64_t>(i));
    // A replica draws what a worker of its number would.
    const uint64_t piece = derive_seed(seed, "step", static_cast<uint64_t>(task.work.step));
    return {task.micro_batch,
            part_of[task.chunk],
            samples,
            task.first_sample,
            derive_seed(piece, "worker", replica),
            train,
            task.work.loss_scale,
            task.work.step};
  }

  void run(ps::StageTask task, const std::vector<Tensor>& weights) {
    const bool traced = task.work.kind == ps::Work::Kind::train && track.wants(task.work.step);
    TraceEvent event;
    if (traced) event.begin = track.now();
    const auto begin = Clock::now();
    const MicroBatch micro = micro_batch(task);
    StageTaskDone done;
    switch (task.kind) {
      case ps::ActionKind::forward: done.output = source->forward(micro, weights, std::move(task.input)); break;
      case ps::ActionKind::backward_input:
        done.output = source->backward_input(micro, weights, std::move(task.input));
        break;
      default: source->backward_weight(micro, weights);
    }
    auto took = Clock::now() - begin;
    auto extra = took * (slow_down.factor - 1);
    if (task.kind == ps::ActionKind::forward && task.micro_batch == 0) extra += slow_down.extra;
    if (extra.count() > 0) {
      std::this_thread::sleep_for(extra);
      took = Clock::now() - begin;
    }
    done.compute_s = seconds(took);
    done.stats = source->take_stats();
    if (traced) record(event, task);
    for (const ps::LayerId layer : task.gradients)
      report(StageSum{task.work.number, layer, source->take_gradient(layer)});
    done.task = std::move(task);
    done.task.input = {};
    report(std::move(done));
  }

  void record(TraceEvent event, const ps::StageTask& task) const {
    event.name = name_of(task.kind);
    event.end = track.now();
    event.args = {{{"step", task.work.step}, {"micro-batch", task.micro_batch}, {"chunk", task.chunk}}};
    if (task.kind == ps::ActionKind::forward) {
      if (task.chunk > 0) event.flow_in = arrow(replica, task, task.chunk);
      if (task.chunk < last_chunk) event.flow_out = arrow(replica, task, task.chunk + 1);
    } else if (task.kind == ps::ActionKind::backward_input) {
      if (task.chunk < last_chunk) event.flow_in = arrow(replica, task, task.chunk);
      if (task.chunk > 0) event.flow_out = arrow(replica, task, task.chunk - 1);
    }
    track.record(event);
  }

  void complete(ps::Step step, ps::StageCore::Gradient gradient) {
    if (gradient.other) {
      Tensor both = Tensor::empty(gradient.sum.shape());
      ops::cpu_ops().add(stream, gradient.sum, gradient.other.reshaped(gradient.sum.shape()), both);
      gradient.sum = std::move(both);
    }
    const auto [squares, finite] =
        measure(stream, ops::cpu_ops(), source->layers()[gradient.layer], gradient.sum, measure_norm);
    report(GradientDone{step, gradient.layer, std::move(gradient.sum), squares, finite});
  }

  template <class Task>
  void guard(const Task& task) {
    try {
      task();
    } catch (const std::exception& e) {
      report(TaskFailed{e.what()});
    }
  }
};

Stage::Stage(StageParts parts)
    : parts_(std::move(parts)), core_(parts_.options), computer_(std::make_shared<Computer>(parts_)) {}

void Stage::obey(const ps::Membership& membership, ps::Generation generation) {
  core_.set_membership(std::make_shared<const ps::Membership>(membership), generation);
}

ps::Outbox Stage::begin(const ps::Work& work, std::vector<Tensor> weights) {
  runs_[work.number] = {work, std::make_shared<const std::vector<Tensor>>(std::move(weights)), {}, 0};
  return carry(core_.begin(work));
}

ps::Outbox Stage::handle(const ps::Envelope& envelope) { return carry(core_.handle(envelope)); }

ps::Outbox Stage::done(const StageTaskDone& task) {
  if (const auto run = runs_.find(task.task.work.number); run != runs_.end()) {
    run->second.compute_s += task.compute_s;
    StepStats& sum = run->second.stats;
    sum.loss_sum += task.stats.loss_sum;
    sum.correct += task.stats.correct;
    sum.samples += task.stats.samples;
  }
  return carry(core_.computed(task.task, task.output));
}

ps::Outbox Stage::done(const StageSum& sum) {
  return carry(core_.gradient(sum.work, sum.layer, sum.sum));
}

ps::Outbox Stage::tick() const { return core_.tick().send; }

ps::Outbox Stage::watch(int64_t now_ms) { return carry(core_.watch(now_ms)); }

ps::Outbox Stage::carry(ps::StageCore::Effects effects) {
  for (ps::StageTask& task : effects.tasks) submit(std::move(task));
  for (ps::StageCore::Gradient& gradient : effects.gradients) submit(std::move(gradient));
  for (const ps::Work& work : effects.done) submit_end(work);
  return std::move(effects.send);
}

void Stage::submit(ps::StageTask task) {
  parts_.compute->submit([computer = computer_, weights = runs_.at(task.work.number).weights, task = std::move(task)] {
    computer->guard([&] { computer->run(task, *weights); });
  });
}

void Stage::submit(ps::StageCore::Gradient gradient) {
  const ps::Step step = runs_.at(gradient.work).work.step;
  parts_.compute->submit([computer = computer_, step, gradient = std::move(gradient)] {
    computer->guard([&] { computer->complete(step, gradient); });
  });
}

void Stage::submit_end(const ps::Work& work) {
  const Run run = std::move(runs_.extract(work.number).mapped());
  const double waited = seconds(Clock::now() - idle_since_) - run.compute_s;
  idle_since_ = Clock::now();
  parts_.compute->submit([computer = computer_, work, stats = run.stats, computed = run.compute_s, waited] {
    if (work.kind == ps::Work::Kind::train)
      computer->report(BackwardDone{work.step, stats, computed, waited});
    else
      computer->report(EvaluateDone{stats, computed});
  });
}

}  // namespace troupe
