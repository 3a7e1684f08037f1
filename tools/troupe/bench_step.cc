#include <ctime>

#include <iostream>

#include <troupe/kernels/base/random.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>
#include <troupe/ps/metrics/human.h>

#include "bench.h"
#include "bench_device.h"

using namespace troupe;

namespace {

constexpr double kMostHostMicroseconds = 50;

struct Arguments {
  DeviceArguments device;
  std::string model = "mlp";
  int64_t batch = 0;
  bool graphs = false;
  double against = 0;
  Timing timing{20, 200};
};

/// Noise that was drawn once: what reading data costs is no part of this.
class Noise final : public nn::Dataset {
 public:
  explicit Noise(const nn::ModelSpec& spec) : spec_(spec), values_(Tensor::empty({kSamples * spec.input.count()})) {
    Random random(1);
    for (float& value : values_.span<float>()) value = static_cast<float>(random.normal());
  }
  int64_t size() const override { return kSamples; }
  Shape sample_shape() const override { return spec_.input; }
  DType sample_dtype() const override { return is_text() ? DType::i32 : DType::f32; }
  Shape label_shape() const override { return is_text() ? spec_.input : Shape{}; }
  int64_t classes() const override { return spec_.classes; }
  void gather(std::span<const uint32_t> samples, Tensor& inputs, Tensor& labels) const override {
    const size_t bytes = static_cast<size_t>(spec_.input.count()) * sizeof(float);
    for (size_t i = 0; i < samples.size() && !is_text(); ++i)
      std::memcpy(inputs.raw() + i * bytes, values_.raw() + samples[i] % kSamples * bytes, bytes);
    if (is_text())
      for (int64_t i = 0; i < inputs.count(); ++i) inputs.data<int32_t>()[i] = token(i);
    for (int64_t i = 0; i < labels.count(); ++i) labels.data<int32_t>()[i] = token(i + 1);
  }

 private:
  static constexpr int64_t kSamples = 1024;
  bool is_text() const { return spec_.kind == "gpt"; }
  int32_t token(int64_t i) const { return static_cast<int32_t>(i * 7919 % spec_.classes); }

  nn::ModelSpec spec_;
  Tensor values_;
};

// As tools/bench/torch_step.py has them.
nn::ModelSpec spec_named(const std::string& name) {
  if (name == "mlp") return {.kind = "mlp", .input = {784}, .classes = 10, .hidden = {512, 256}};
  if (name == "cnn") return {.kind = "cnn", .input = {1, 28, 28}, .classes = 10, .hidden = {128}, .channels = {32, 64}};
  return {.kind = "gpt", .input = {1024}, .classes = 50257, .layers = 12, .heads = 12, .width = 768, .context = 1024};
}

int64_t batch_of(const Arguments& a) {
  if (a.batch > 0) return a.batch;
  return a.model == "mlp" ? 128 : a.model == "cnn" ? 64 : 4;
}

double thread_cpu_s() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Step {
  double seconds = 0, host_s = 0;  ///< a step; what its thread computed, which waits without computing
  double launches = 0, graphs = 0;
};

/// Forward and backward passes with weights that lie on the device, where their gradients stay.
class Passes {
 public:
  Passes(BenchDevice& device, const Arguments& a, std::shared_ptr<const nn::Model> model,
         std::shared_ptr<const nn::Dataset> data)
      : device_(device), samples_(static_cast<size_t>(batch_of(a))) {
    nn::LaunchOptions launches{a.graphs, [](const std::string& note) { std::cout << "  " << note << '\n'; }};
    auto made = nn::ModelSource::make(std::move(model), data, data, device.backend,
                                      {0, a.device.threads, precision_of(a.device)}, DType::f32, std::move(launches));
    if (!made) throw std::runtime_error(made.error().message);
    source_ = std::move(*made);
    for (size_t layer = 0; layer < source_->layers().size(); ++layer) {
      Tensor host = Tensor::empty({source_->layers()[layer].count});
      source_->initialize(layer, 1, host.span<float>());
      weights_.push_back(device.stream->empty(host.shape()));
      device.stream->copy(host, weights_.back());
    }
    if (const Status status = device.stream->wait(); !status) throw std::runtime_error(status.error().message);
  }

  Step measure(const Timing& timing) {
    for (int64_t i = 0; i < timing.warm_steps; ++i) step();
    const LaunchCounts before = source_->launches();
    const double begin = now_s(), cpu = thread_cpu_s();
    for (int64_t i = 0; i < timing.steps; ++i) step();
    const auto steps = static_cast<double>(timing.steps);
    const LaunchCounts after = source_->launches();
    return {(now_s() - begin) / steps, (thread_cpu_s() - cpu) / steps,
            static_cast<double>(after.kernels - before.kernels) / steps,
            static_cast<double>(after.graphs - before.graphs) / steps};
  }

 private:
  void step() {
    for (uint32_t& sample : samples_) sample = next_++;
    source_->backward({samples_, 1}, weights_, [](size_t, const Tensor&) {});
  }

  BenchDevice& device_;
  std::unique_ptr<nn::ModelSource> source_;
  std::vector<Tensor> weights_;
  std::vector<uint32_t> samples_;
  uint32_t next_ = 0;
};

/// A whole run of one worker: passes, and sums and optimizer steps where the worker computes.
double run_s(const BenchDevice& device, const Arguments& a, std::shared_ptr<const nn::Model> model,
             std::shared_ptr<const nn::Dataset> data) {
  const ps::OptimizerOptions optimizer{.name = a.model == "mlp" ? "sgd" : "adam", .learning_rate = 1e-3};
  ClusterParts parts;
  parts.coordinator.layers = model->layers();
  parts.coordinator.policies.assign(model->layers().size(), {ps::Mode::all_reduce});
  parts.coordinator.dealer.train_samples = int64_t{1} << 30;
  parts.coordinator.dealer.global_batch = batch_of(a);
  parts.coordinator.dealer.worker_batch = {batch_of(a)};
  parts.shuffle = false;
  parts.optimizer = ps::make_optimizer(optimizer).value();
  parts.source = [&](ps::WorkerId) {
    return nn::ModelSource::make(model, data, data, device.backend, {0, a.device.threads, precision_of(a.device)},
                                 DType::f32, {.graphs = a.graphs})
        .value();
  };
  if (!device.is_cpu())
    parts.devices = DeviceParts{device.backend, [](uint32_t) -> Result<int> { return 0; }, optimizer};
  parts.initial = initial_from(parts.source(0), *parts.optimizer, 1);
  return static_cast<double>(batch_of(a)) / measure_speed(std::move(parts), a.timing).samples_per_second;
}

void measure(const Arguments& a) {
  BenchDevice device = open_device(a.device);
  const nn::ModelSpec spec = spec_named(a.model);
  auto made = nn::make_model(spec);
  if (!made) throw std::runtime_error(made.error().message);
  const auto model = std::make_shared<const nn::Model>(std::move(*made));
  const auto data = std::make_shared<const Noise>(spec);
  const auto batch = static_cast<double>(batch_of(a));
  std::cout << "steps of " << a.model << " on " << device.name() << ", " << batch_of(a) << " samples\n";
  const Step passes = Passes(device, a, model, data).measure(a.timing);
  std::cout << "  forward and backward pass  " << column(passes.seconds * 1e6) << " us, "
            << column(batch / passes.seconds) << " samples/s";
  if (!device.is_cpu())
    std::cout << ", " << ps::fixed(passes.launches, 1) << " launches and " << ps::fixed(passes.graphs, 1)
              << " graphs\n  "
              << verdict("host-side cost of a step", passes.host_s * 1e6, kMostHostMicroseconds, false, " us");
  const double whole = run_s(device, a, model, data);
  std::cout << "\n  a step of a run            " << column(whole * 1e6) << " us, " << column(batch / whole)
            << " samples/s\n";
  if (a.against > 0)
    std::cout << "  " << verdict("of eager PyTorch's speed", batch / whole / a.against, 1, true, "") << '\n';
}

}  // namespace

void add_bench_step(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand("step", "Training steps on one device: passes alone, and as a run's");
  auto arguments = std::make_shared<Arguments>();
  add_device_arguments(*command, arguments->device);
  command->add_option("--model", arguments->model, "Trained on noise, as tools/bench/torch_step.py does")
      ->check(CLI::IsMember({"mlp", "cnn", "gpt"}))
      ->capture_default_str();
  command->add_option("--batch", arguments->batch, "Samples a step; 0: 128, 64 or 4, by model")
      ->check(CLI::Range(0, 1 << 20));
  command->add_flag("--graphs", arguments->graphs, "As [parallel] launch_graphs");
  command->add_option("--against", arguments->against, "Samples a second of PyTorch, to be compared with");
  command->add_option("--steps", arguments->timing.steps, "Steps that are measured")->check(CLI::Range(1, 1 << 20));
  command->callback([arguments, &exit_code] { exit_code = run_bench([&] { measure(*arguments); }); });
}
