// Linear regression with actors: two workers and two servers fit y = 3a - 2b + 1, asynchronously.
//
//   build/examples/linear_regression
//
// It prints the weights it found, about 3 -2 1, and fails if they are far off.
#include <cmath>
#include <cstdio>

#include <troupe/actors/run.h>
#include <troupe/kernels/base/random.h>

using namespace troupe;

// What a worker computes: one layer, "line", of two weights and a bias.
class LineSource : public GradientSource {
 public:
  const std::vector<LayerSpec>& layers() const override { return layers_; }
  void initialize(size_t, uint64_t, std::span<float> values) override { std::fill(values.begin(), values.end(), 0.f); }

  StepStats backward(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready) override {
    const float* w = weights[0].data<float>();
    Tensor gradient = Tensor::zeros({3});
    StepStats stats;
    for (uint32_t sample : batch.samples) {
      Random random(sample);
      const double a = random.normal(), b = random.normal();
      const double error = w[0] * a + w[1] * b + w[2] - (3 * a - 2 * b + 1 + 0.01 * random.normal());
      gradient.data<float>()[0] += static_cast<float>(error * a);
      gradient.data<float>()[1] += static_cast<float>(error * b);
      gradient.data<float>()[2] += static_cast<float>(error);
      stats.loss_sum += error * error / 2;
      ++stats.samples;
    }
    ready(0, gradient);
    return stats;
  }

  StepStats evaluate(std::span<const uint32_t>, std::span<const Tensor> weights) override {
    const float* w = weights[0].data<float>();
    std::printf("found %.3f %.3f %.3f\n", w[0], w[1], w[2]);
    return {std::abs(w[0] - 3) + std::abs(w[1] + 2) + std::abs(w[2] - 1), 0, 1};
  }

  int64_t train_samples() const override { return 4096; }
  int64_t test_samples() const override { return 1; }

 private:
  std::vector<LayerSpec> layers_{{"line", 3, {{"line.weight", {2}, 0}, {"line.bias", {1}, 2, ParamKind::bias}}}};
};

int main() {
  auto first = std::make_shared<LineSource>();
  ClusterParts parts;
  parts.coordinator.layers = first->layers();
  parts.coordinator.policies = {{ps::Mode::async}};
  parts.coordinator.layout.servers = 2;
  parts.coordinator.dealer = {.train_samples = 4096, .epochs = 3, .global_batch = 64, .worker_batch = {32, 32}};
  parts.coordinator.test_samples = 1;
  parts.source = [](ps::WorkerId) { return std::make_unique<LineSource>(); };
  parts.optimizer = *ps::make_optimizer({.name = "sgd", .learning_rate = 0.1});
  parts.initial = initial_from(first, *parts.optimizer, 1);

  auto run = Run::start(std::move(parts));
  if (!run) return std::fprintf(stderr, "%s\n", run.error().message.c_str()), 1;
  const ps::RunResult& result = (*run)->wait();
  std::printf("%lld steps, %lld samples\n", static_cast<long long>(result.steps),
              static_cast<long long>(result.samples));
  return result.outcome == ps::Outcome::completed && result.evaluation.stats.loss_sum < 0.1 ? 0 : 1;
}
