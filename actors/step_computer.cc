#include <troupe/actors/step_computer.h>

#include <thread>
#include <utility>

#include <troupe/actors/measure.h>
#include <troupe/kernels/base/random.h>
#include <troupe/kernels/ops/ops.h>
#include <troupe/ps/control/bucket_filler.h>
#include <troupe/ps/param/rows.h>

namespace troupe {
namespace {

double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

StepComputer::StepComputer(const WorkerParts& parts)
    : source_(parts.source),
      measuring_(dynamic_cast<MeasuringSource*>(source_.get())),
      sampler_(parts.sampler),
      seed_(parts.seed),
      worker_(parts.options.self.index),
      slow_down_(parts.slow_down),
      measure_norm_(parts.options.clip_norm > 0),
      track_(parts.compute_track) {
  if (measuring_) measuring_->measure_gradients(measure_norm_);
}

Batch StepComputer::batch(const ps::Work& work) {
  if (running_.work != work.number) {
    running_.work = work.number;
    running_.samples.resize(static_cast<size_t>(work.range.count));
    sampler_.indices(work.range.epoch, work.range.begin, running_.samples);
  }
  const uint64_t piece = derive_seed(seed_, "step", static_cast<uint64_t>(work.step));
  return {running_.samples, derive_seed(piece, "worker", worker_), work.loss_scale};
}

void StepComputer::prepare(const ps::Work& work) {
  const Span span(track_, "prepare", work.step);
  const auto begin = Clock::now();
  source_->prepare(batch(work));
  running_.computing += Clock::now() - begin;
}

RowsDone StepComputer::find_rows(const ps::Work& work) {
  const Span span(track_, "find rows", work.step);
  const auto begin = Clock::now();
  RowsDone done{work.number, std::vector<Tensor>(source_->layers().size())};
  const Batch samples = batch(work);
  for (size_t layer = 0; layer < done.rows.size(); ++layer)
    if (ps::by_rows(source_->layers()[layer])) done.rows[layer] = source_->rows(samples, layer);
  running_.computing += Clock::now() - begin;
  return done;
}

void StepComputer::forward(const ps::Forward& task, const std::vector<Tensor>& weights) {
  Span span(track_, "forward", task.work.step, {"first", static_cast<int64_t>(task.first)});
  span.event.args[2] = {"last", static_cast<int64_t>(task.last)};
  const auto begin = Clock::now();
  source_->forward(batch(task.work), weights, task.first, task.last);
  running_.computing += Clock::now() - begin;
}

/// Where the gradients of a backward pass go: into their bucket, which is reduced once it is full, or to the actor.
class StepComputer::Outlet {
 public:
  Outlet(StepComputer& computer, const ps::Backward& task, Reducer* reducer, const Reducer::Report& report)
      : computer_(computer), step_(task.work.step), filler_(task.buckets), reducer_(reducer), report_(report) {}

  void take(size_t index, Tensor gradient) {
    const auto layer = static_cast<ps::LayerId>(index);
    const Span span(computer_.track_, "gradient ready", step_, {"layer", layer});
    const auto [squares, finite] = measured(layer, gradient);
    finite_ = finite_ && finite;
    if (!finite_ || !filler_.take(layer, gradient))
      return report_(GradientDone{step_, layer, std::move(gradient), squares, finite});
    for (ps::Bucket bucket = filler_.next(); !bucket.empty(); bucket = filler_.next())
      reducer_->reduce(std::move(bucket), report_);
  }

 private:
  std::pair<double, bool> measured(ps::LayerId layer, const Tensor& gradient) {
    const auto known = computer_.measuring_ ? computer_.measuring_->measured() : std::nullopt;
    if (known) return {known->sum_of_squares, known->finite};
    if (gradient.device().kind != DeviceKind::cpu) return reducer_->measure(layer, gradient);
    return measure(computer_.stream_, ops::cpu_ops(), computer_.source_->layers()[layer], gradient,
                   computer_.measure_norm_);
  }

  StepComputer& computer_;
  const ps::Step step_;
  ps::BucketFiller filler_;
  Reducer* const reducer_;
  const Reducer::Report& report_;
  bool finite_ = true;  ///< so far; nothing is reduced of a step that is not
};

void StepComputer::slow_down() {
  const auto extra = running_.computing * (slow_down_.factor - 1) + slow_down_.extra;
  if (extra.count() <= 0) return;
  const auto begin = Clock::now();
  std::this_thread::sleep_for(extra);
  running_.computing += Clock::now() - begin;
}

void StepComputer::backward(const ps::Backward& task, const std::vector<Tensor>& weights, Reducer* reducer,
                            const Reducer::Report& report) {
  const Span span(track_, "backward", task.work.step);
  const auto begin = Clock::now();
  Outlet outlet(*this, task, reducer, report);
  source_->leave_on_device(task.stay);
  const StepStats stats = source_->backward(batch(task.work), weights, [&](size_t layer, Tensor gradient) {
    outlet.take(layer, std::move(gradient));
  });
  running_.computing += Clock::now() - begin;
  slow_down();
  const auto end = Clock::now();
  report(BackwardDone{task.work.step, stats, seconds(running_.computing),
                      seconds(end - idle_since_ - running_.computing)});
  running_ = {};
  idle_since_ = end;
}

EvaluateDone StepComputer::evaluate(const ps::Evaluate& task, const std::vector<Tensor>& weights) {
  const Span span(track_, "evaluate", task.work.step);
  const auto begin = Clock::now();
  std::vector<uint32_t> samples(static_cast<size_t>(task.work.range.count));
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<uint32_t>(task.work.range.begin + i);
  const StepStats stats = source_->evaluate(samples, weights);
  idle_since_ = Clock::now();
  return {stats, seconds(idle_since_ - begin)};
}

}  // namespace troupe
