#include <troupe/actors/own_copy_reducer.h>

#include <troupe/actors/local_update.h>
#include <troupe/actors/measure.h>

namespace troupe {
namespace {

struct Shared {
  OwnCopyReducerParts parts;

  ApplyDone applied(const ps::ApplyLocal& task, const Tensor& sum) const {
    const Span span(parts.track, "apply", task.step, {"layer", task.layer});
    Tensor values = Tensor::empty(task.local.values.shape());
    update_range(*parts.optimizer, parts.layers[task.layer], task, {&sum, 1}, 0, sum.count(), values);
    return {task.step, {{task.layer, after_update(task, std::move(values))}}};
  }

  TaskDone after(const ps::Reduce& task, Tensor sum) const {
    if (task.apply) return applied(*task.apply, sum);
    const Span span(parts.track, "measure", task.step, {"layer", task.layer});
    Stream stream;
    const auto [squares, finite] = measure(stream, ops::cpu_ops(), parts.layers[task.layer], sum, parts.norm);
    return ReduceDone{task.step, task.layer, std::move(sum), squares, finite};
  }
};

class OwnCopyReducer final : public Reducer {
 public:
  explicit OwnCopyReducer(OwnCopyReducerParts parts) : shared_(std::make_shared<Shared>(Shared{std::move(parts)})) {}

  void reduce(ps::Bucket bucket, Report report) override {
    for (ps::Reduce& task : bucket) {
      Tensor gradient = std::move(task.gradient);
      const auto asked = shared_->parts.track.now();
      shared_->parts.all_reducer->all_reduce(
          std::move(gradient), [shared = shared_, task, report, asked](const Status& status, Tensor sum) {
            const Track& track = shared->parts.track;
            if (track.wants(task.step))
              track.record({.name = "reduce", .begin = asked, .end = track.now(),
                            .args = {{{"step", task.step}, {"layer", task.layer}}}});
            if (status) return guarded(report, [&] { return shared->after(task, std::move(sum)); });
            // Cancelled: another worker of the group ended, and the coordinator hears of that one.
            if (status.error().kind == ErrorKind::cancelled) return;
            report(TaskFailed{cat("all-reduce of layer ", task.layer, " in step ", task.step, ": ",
                                  status.error().message)});
          });
    }
  }

  void apply(ps::ApplyLocal task, Report report) override {
    if (!queue_) queue_ = shared_->parts.make_queue();
    queue_->submit([shared = shared_, task = std::move(task), report] {
      guarded(report, [&] { return shared->applied(task, task.gradient); });
    });
  }

  void abort(const std::string& reason) override { shared_->parts.all_reducer->abort(reason); }

 private:
  // The optimizer comes from outside and may throw.
  template <class Work>
  static void guarded(const Report& report, const Work& work) {
    try {
      report(work());
    } catch (const std::exception& e) {
      report(TaskFailed{e.what()});
    }
  }

  std::shared_ptr<const Shared> shared_;
  std::shared_ptr<Executor> queue_;
};

}  // namespace

std::shared_ptr<Reducer> make_own_copy_reducer(OwnCopyReducerParts parts) {
  return std::make_shared<OwnCopyReducer>(std::move(parts));
}

}  // namespace troupe
