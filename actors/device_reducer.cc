#include <troupe/actors/device_reducer.h>

#include <map>
#include <stdexcept>

#include <troupe/actors/measure.h>
#include <troupe/actors/packed_bucket.h>

namespace troupe {
namespace {

using Joined = std::shared_ptr<Communicator>;

/// What the queue's tasks share, and they alone use.
struct Shared {
  DeviceReducerParts parts;
  Joined group;  ///< once joined
  std::map<ps::LayerId, Tensor> before = {};  ///< by layer: the values that its last step began with

  Status join() {
    if (group) return {};
    auto joined = parts.join();
    if (!joined) return tl::unexpected<Error>(joined.error());
    group = std::move(*joined);
    return {};
  }

  Stream& stream() const { return *group->stream(); }

  Tensor empty(Shape shape, const std::string& use) const {
    try {
      return stream().empty(shape);
    } catch (const std::bad_alloc& e) {
      throw std::runtime_error(cat("no memory for ", use, ": ", e.what()));
    }
  }

  Tensor copy(const Tensor& from, const std::string& use) const {
    Tensor to = empty(from.shape(), use);
    stream().copy(from, to);
    return to;
  }

  Tensor on_device(const Tensor& values, const std::string& use) const {
    return values.device() == stream().device() ? values : copy(values, use);
  }

  std::string state_of(ps::LayerId layer) const {
    return cat("parameters and optimizer state of layer ", parts.layers[layer].name);
  }

  /// The sums of the bucket's gradients, one a task: views of one piece of memory.
  Result<std::vector<Tensor>> sums(const ps::Bucket& bucket) {
    TROUPE_TRY(join());
    PackedBucket packed = pack(stream(), bucket, parts.layers);
    TROUPE_TRY(group->all_reduce(packed.all, packed.all));
    return std::move(packed.gradients);
  }

  /// The values before `now`, where nobody has them any more. So a layer's values lie in two places in turn, and steps
  /// that were captured there can be replayed (nn/graph_choice.h).
  Tensor place_for(const Tensor& now, ps::LayerId layer) {
    Tensor place = std::exchange(before[layer], now);
    if (place && place.buffer().use_count() == 1 && place.device() == stream().device()) return place;
    return empty(now.shape(), state_of(layer));
  }

  /// Submits the step; a running step may read the old values.
  ps::SliceState updated(const ps::ApplyLocal& task, const Tensor& sum) {
    ps::SliceState after = task.local;
    after.values = place_for(task.local.values, task.layer);
    stream().copy(task.local.values, after.values);
    for (Tensor& state : after.state) state = on_device(state, state_of(task.layer));
    const LayerSpec& layer = parts.layers[task.layer];
    parts.optimizer.apply(
        stream(), ps::segments_of(layer, 0, layer.count),
        {sum, after.values, after.state, task.gradient_scale, task.clip_scale, task.schedule_step, task.local.updates});
    ++after.updates;
    return after;
  }

  Status reduce(const ps::Bucket& bucket, const Reducer::Report& report) {
    const ps::Step step = bucket.front().step;
    const Span span(parts.track, "reduce", step, {"layer", bucket.front().layer});
    auto summed = sums(bucket);
    if (!summed) return tl::unexpected<Error>(summed.error());
    ApplyDone applied{step, {}};
    std::vector<ReduceDone> reduced;
    for (size_t i = 0; i < bucket.size(); ++i) {
      const ps::Reduce& task = bucket[i];
      const Tensor& sum = (*summed)[i];
      if (task.apply) {
        applied.layers.emplace_back(task.layer, updated(*task.apply, sum));
        continue;
      }
      const auto [squares, finite] = measure(stream(), parts.backend->ops(), parts.layers[task.layer], sum, parts.norm);
      reduced.push_back({step, task.layer, sum, squares, finite});
    }
    TROUPE_TRY(stream().wait());
    for (ReduceDone& done : reduced) report(std::move(done));
    if (!applied.layers.empty()) report(std::move(applied));
    return {};
  }

  Status apply(const ps::ApplyLocal& task, const Reducer::Report& report) {
    const Span span(parts.track, "apply", task.step, {"layer", task.layer});
    TROUPE_TRY(join());
    ApplyDone applied{task.step, {{task.layer, updated(task, on_device(task.gradient, state_of(task.layer)))}}};
    TROUPE_TRY(stream().wait());
    report(std::move(applied));
    return {};
  }

  Status fetch(const ps::Fetch& task, const Reducer::Report& report) {
    TROUPE_TRY(join());
    const auto in_host_memory = [this](Tensor& values) {
      Tensor host = empty_on_host(*parts.backend, values.shape());
      stream().copy(values, host);
      values = std::move(host);
    };
    FetchDone fetched{task.layers};
    for (auto& [layer, local] : fetched.layers) {
      in_host_memory(local.values);
      for (Tensor& state : local.state) in_host_memory(state);
    }
    TROUPE_TRY(stream().wait());
    report(std::move(fetched));
    return {};
  }
};

class DeviceReducer final : public Reducer {
 public:
  explicit DeviceReducer(DeviceReducerParts parts)
      : meter_(parts.backend, parts.device, parts.layers, parts.norm),
        queue_(std::move(parts.queue)),
        shared_(std::make_shared<Shared>(Shared{std::move(parts), {}})) {}

  void reduce(ps::Bucket bucket, Report report) override {
    const std::string what = cat("all-reduce of ", bucket.size(), " layers from ",
                                 shared_->parts.layers[bucket.front().layer].name, " on in step ", bucket.front().step);
    submit(what, std::move(report), [bucket = std::move(bucket)](Shared& shared, const Report& report) {
      return shared.reduce(bucket, report);
    });
  }
  void apply(ps::ApplyLocal task, Report report) override {
    const std::string what = cat("update of layer ", shared_->parts.layers[task.layer].name, " in step ", task.step);
    submit(what, std::move(report),
           [task = std::move(task)](Shared& shared, const Report& report) { return shared.apply(task, report); });
  }
  void fetch(ps::Fetch task, Report report) override {
    submit("bringing all_reduce layers home", std::move(report),
           [task = std::move(task)](Shared& shared, const Report& report) { return shared.fetch(task, report); });
  }

  std::pair<double, bool> measure(ps::LayerId layer, const Tensor& gradient) override {
    return meter_.measure(layer, gradient);
  }

  void abort(const std::string& reason) override { shared_->parts.abort(reason); }

 private:
  template <class Work>
  void submit(std::string what, Report report, Work work) {
    queue_->submit([shared = shared_, what = std::move(what), report = std::move(report), work = std::move(work)] {
      const Status status = status_of([&] { return work(*shared, report); });
      // Cancelled: another worker of the group ended, and the coordinator hears of that one.
      if (status || status.error().kind == ErrorKind::cancelled) return;
      shared->parts.abort(cat(what, " failed on another worker: ", status.error().message));
      report(TaskFailed{cat(what, ": ", status.error().message)});
    });
  }

  DeviceMeter meter_;  ///< the compute queue's
  // Held here alone: a task that held its queue would drop it on the queue's own thread, when the actors' system may
  // have ended.
  const std::shared_ptr<Executor> queue_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace

std::shared_ptr<Reducer> make_device_reducer(DeviceReducerParts parts) {
  return std::make_shared<DeviceReducer>(std::move(parts));
}

}  // namespace troupe
