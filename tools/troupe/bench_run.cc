#include <stdexcept>

#include <troupe/kernels/base/cores.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>
#include <troupe/ps/config/run_config.h>

#include "bench.h"

using namespace troupe;

namespace {

/// Takes the time between two steps of a run. Called on the coordinator's thread; read when the run is over.
class Stopwatch final : public RunObserver {
 public:
  explicit Stopwatch(const Timing& timing) : timing_(timing) {}

  void on_step(const ps::StepReport& report) override {
    ++steps_;
    if (steps_ > timing_.warm_steps && steps_ <= timing_.warm_steps + timing_.steps) {
      samples_ += report.stats.samples;
      computed_s_ += report.compute_s;
      waited_s_ += report.wait_s;
      end_s_ = now_s();
      end_cpu_s_ = cpu_s();
    }
    if (steps_ == timing_.warm_steps) begin_s_ = now_s(), begin_cpu_s_ = cpu_s();
  }

  double samples_per_second() const { return static_cast<double>(samples_) / (end_s_ - begin_s_); }
  double cpu_s_a_step() const { return (end_cpu_s_ - begin_cpu_s_) / static_cast<double>(timing_.steps); }
  double wait_share() const { return waited_s_ / (computed_s_ + waited_s_); }

 private:
  Timing timing_;
  int64_t steps_ = 0, samples_ = 0;
  double begin_s_ = 0, end_s_ = 0, begin_cpu_s_ = 0, end_cpu_s_ = 0, computed_s_ = 0, waited_s_ = 0;
};

std::vector<std::string> names_of(const std::vector<LayerSpec>& layers) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : layers) names.push_back(layer.name);
  return names;
}

}  // namespace

Speed measure_speed(ClusterParts parts, const Timing& timing) {
  auto watch = std::make_shared<Stopwatch>(timing);
  parts.observer = watch;
  parts.coordinator.dealer.epochs = 0;
  parts.coordinator.dealer.max_steps = timing.warm_steps + timing.steps;
  parts.coordinator.test_samples = 0;
  parts.coordinator.checkpoint_at_end = false;
  auto run = Run::start(std::move(parts));
  if (!run) throw std::runtime_error(run.error().message);
  Speed speed;
  speed.result = (*run)->wait();
  if (speed.result.outcome != ps::Outcome::completed) throw std::runtime_error(speed.result.failure);
  speed.samples_per_second = watch->samples_per_second();
  speed.cpu_s_a_step = watch->cpu_s_a_step();
  speed.wait_share = watch->wait_share();
  return speed;
}

Result<ClusterParts> parts_of(const ps::RunConfig& config) {
  auto data = ps::load_dataset(ps::data_options(config));
  if (!data) return tl::unexpected<Error>(data.error());
  auto made = nn::make_model(ps::model_spec(config, data->train->sample_shape(), data->train->classes()));
  if (!made) return tl::unexpected<Error>(made.error());
  auto model = std::make_shared<const nn::Model>(std::move(*made));

  ClusterParts parts;
  parts.coordinator.layers = model->layers();
  auto policies = ps::resolve_policies(names_of(model->layers()), config.update);
  if (!policies) return tl::unexpected<Error>(policies.error());
  parts.coordinator.policies = std::move(*policies);
  auto optimizer = ps::make_optimizer(ps::optimizer_options(config, 1000));
  if (!optimizer) return tl::unexpected<Error>(optimizer.error());
  parts.optimizer = std::move(*optimizer);
  parts.coordinator.layout = ps::layout_options(config);
  parts.coordinator.layout.whole_layers = parts.optimizer->needs_whole_tensors();
  parts.coordinator.dealer = ps::dealer_options(config, data->train->size());
  parts.coordinator.clip_norm = config.train.clip_norm;
  parts.coordinator.loss_scaling = ps::loss_scaling(config.precision);
  parts.coordinator.skip_non_finite =
      config.train.on_nonfinite == ps::NonFinite::skip || parts.coordinator.loss_scaling.dynamic;
  parts.immediate_scale = config.servers.immediate_scale;
  parts.seed = static_cast<uint64_t>(config.train.seed);
  parts.shuffle = config.data.shuffle;
  const auto threads = static_cast<int>(config.parallel.threads_per_worker);
  parts.threads_per_worker = threads;
  parts.bucket_bytes = config.parallel.bucket_bytes;
  parts.reduce_threads = static_cast<int>(ps::reduce_threads(config, usable_cores()));
  const DType storage = ps::storage_type(config.precision);
  parts.source = [model, sets = *data, threads, storage](ps::WorkerId) {
    return std::make_unique<nn::ModelSource>(model, sets.train, sets.test, threads, storage);
  };
  parts.initial = initial_from(parts.source(0), *parts.optimizer, parts.seed);
  return parts;
}
