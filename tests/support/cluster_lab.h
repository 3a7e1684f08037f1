#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/run.h>
#include <troupe/kernels/nn/forwarding_source.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>
#include <troupe/ps/data/load_dataset.h>
#include <troupe/ps/data/memory_dataset.h>

/// Whole clusters on small models: what a test sets up, and what it looks at afterwards.
namespace troupe::test {

inline const ps::Policy kAllReduce{ps::Mode::all_reduce, 0}, kSync{ps::Mode::sync, 0}, kSsp{ps::Mode::ssp, 2},
    kAsync{ps::Mode::async, 0};

/// What a test does to a worker's source; called on that worker's compute thread.
struct Hooks {
  std::function<void(ps::WorkerId, const Batch&)> before_backward;
  std::function<void(ps::WorkerId, size_t layer, Tensor&)> on_gradient;
};

class HookedSource final : public ForwardingSource {
 public:
  HookedSource(std::unique_ptr<GradientSource> source, ps::WorkerId worker, Hooks hooks)
      : ForwardingSource(std::move(source)), worker_(worker), hooks_(std::move(hooks)) {}

  StepStats backward(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready) override {
    if (hooks_.before_backward) hooks_.before_backward(worker_, batch);
    return ForwardingSource::backward(batch, weights, [&](size_t layer, Tensor gradient) {
      if (hooks_.on_gradient) hooks_.on_gradient(worker_, layer, gradient);
      ready(layer, std::move(gradient));
    });
  }
  std::optional<GradientMeasure> measured() const override {
    return hooks_.on_gradient ? std::nullopt : ForwardingSource::measured();
  }

 private:
  ps::WorkerId worker_;
  Hooks hooks_;
};

/// A run that is over.
struct Trial {
  ps::RunResult result;
  std::vector<ps::CheckpointRequest> checkpoints;
  std::vector<ps::StepReport> steps;
  std::vector<std::string> events;

  double accuracy() const {
    const StepStats& stats = result.evaluation.stats;
    return static_cast<double>(stats.correct) / static_cast<double>(stats.samples);
  }
  /// All parameters of the last checkpoint, layer by layer.
  std::vector<float> parameters() const {
    std::vector<float> all;
    for (const ps::SliceState& slice : checkpoints.back().slices)
      all.insert(all.end(), slice.values.data<float>(), slice.values.data<float>() + slice.values.count());
    return all;
  }
};

/// Starts a run that collects what it says. `parts.coordinator` writes a checkpoint at its end, as ever.
class Lab : public RunObserver {
 public:
  static std::shared_ptr<Lab> start(ClusterParts parts) {
    auto lab = std::make_shared<Lab>();
    parts.observer = lab;
    parts.write_checkpoint = [lab](const ps::CheckpointRequest& request) -> Status {
      std::lock_guard lock(lab->mutex_);
      lab->trial_.checkpoints.push_back(request);
      return {};
    };
    auto run = Run::start(std::move(parts));
    TROUPE_CHECK(run.has_value(), run.error().message);
    lab->run_ = std::move(*run);
    return lab;
  }
  /// Ends the cluster, too.
  static Trial finish(const std::shared_ptr<Lab>& lab) {
    lab->trial_.result = lab->run_->wait();
    lab->run_.reset();
    return std::move(lab->trial_);
  }
  Run& run() { return *run_; }

  void on_step(const ps::StepReport& report) override { trial_.steps.push_back(report); }
  void on_event(const std::string& event) override { trial_.events.push_back(event); }

 private:
  std::mutex mutex_;
  Trial trial_;
  std::unique_ptr<Run> run_;
};

inline Trial train(ClusterParts parts) { return Lab::finish(Lab::start(std::move(parts))); }

/// A small model and data set. Its layers are fc1, fc2, ... (one more than `hidden`).
struct Bench {
  ps::DataOptions data{.format = "synthetic", .samples = 2048, .features = 16, .classes = 5, .noise = 1.5};
  nn::ModelSpec model{.kind = "mlp", .input = {16}, .classes = 5, .hidden = {32, 16, 16}};
  ps::OptimizerOptions optimizer{.name = "sgd", .learning_rate = 0.05, .momentum = 0.9};
  ps::DataSets own;  ///< instead of `data`, where set
  DType storage = DType::f32;  ///< of activations

  ps::DataSets sets() const {
    if (own.train) return own;
    ps::DataSets sets = ps::load_dataset(data).value();
    for (auto* set : {&sets.train, &sets.test})
      *set = std::dynamic_pointer_cast<const ps::MemoryDataset>(*set)->reshaped(model.input).value();
    return sets;
  }

  /// `policies` has one entry a layer, or one for all.
  ClusterParts parts(std::vector<int64_t> worker_batch, std::vector<ps::Policy> policies, Hooks hooks = {}) const {
    const ps::DataSets sets = this->sets();
    const auto built = std::make_shared<const nn::Model>(nn::make_model(model).value());
    ClusterParts parts;
    ps::CoordinatorOptions& c = parts.coordinator;
    c.layers = built->layers();
    if (policies.size() == 1) policies.resize(c.layers.size(), policies[0]);
    c.policies = std::move(policies);
    c.layout = {.servers = 2, .slice_bytes = 1024, .fuse_bytes = 256};
    c.dealer.train_samples = sets.train->size();
    c.dealer.worker_batch = std::move(worker_batch);
    c.dealer.global_batch = 0;
    for (const int64_t share : c.dealer.worker_batch) c.dealer.global_batch += share;
    c.test_samples = sets.test->size();
    parts.optimizer = ps::make_optimizer(optimizer).value();
    parts.source = [built, sets, hooks, storage = storage](ps::WorkerId worker) -> std::unique_ptr<GradientSource> {
      auto source = std::make_unique<nn::ModelSource>(built, sets.train, sets.test, 1, storage);
      return std::make_unique<HookedSource>(std::move(source), worker, hooks);
    };
    parts.initial = initial_from(parts.source(0), *parts.optimizer, parts.seed);
    return parts;
  }
};

/// Goes on from a checkpoint, with whatever layout `parts` has.
inline void resume_from(ClusterParts& parts, const ps::CheckpointRequest& checkpoint) {
  parts.coordinator.resume = checkpoint.dealer;
  parts.coordinator.resume_scale = checkpoint.loss_scale;
  parts.initial = [checkpoint](const ps::Slice& wanted) {
    ps::SliceState out{wanted.id, Tensor::empty({wanted.count()}), {}, 0};
    for (const ps::SliceState& have : checkpoint.slices) {
      const ps::Slice& slice = checkpoint.layout->slices[have.slice];
      const int64_t begin = std::max(slice.begin, wanted.begin), end = std::min(slice.end, wanted.end);
      if (slice.layer != wanted.layer || begin >= end) continue;
      const auto copy = [&](Tensor& to, const Tensor& from) {
        std::copy_n(from.data<float>() + (begin - slice.begin), end - begin, to.data<float>() + (begin - wanted.begin));
      };
      copy(out.values, have.values);
      while (out.state.size() < have.state.size()) out.state.push_back(Tensor::empty({wanted.count()}));
      for (size_t i = 0; i < have.state.size(); ++i) copy(out.state[i], have.state[i]);
      out.updates = have.updates;
    }
    return out;
  };
}

/// The largest difference, relative to the largest parameter.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  TROUPE_CHECK(a.size() == b.size(), a.size(), " and ", b.size(), " parameters");
  double worst = 0, scale = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return worst / scale;
}

/// Which training samples were computed on, and how often.
class SampleCount {
 public:
  explicit SampleCount(int64_t samples) : counts_(static_cast<size_t>(samples)) {}
  SampleCount(const SampleCount& other) : counts_(other.counts_) {}
  void add(std::span<const uint32_t> samples) {
    std::lock_guard lock(mutex_);
    for (const uint32_t sample : samples) ++counts_[sample];
  }
  bool all(int64_t times) const {
    return std::all_of(counts_.begin(), counts_.end(), [times](int64_t count) { return count == times; });
  }

 private:
  std::mutex mutex_;
  std::vector<int64_t> counts_;
};

}  // namespace troupe::test
