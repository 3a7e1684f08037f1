#include "simulated_source.h"

#include <limits>

#include "gradient.h"

namespace troupe::sim {
namespace {

class SimulatedSource final : public GradientSource {
 public:
  SimulatedSource(const Scenario& scenario, ps::WorkerId worker, std::shared_ptr<bool> current, Oracle& oracle)
      : scenario_(scenario), worker_(worker), current_(std::move(current)), oracle_(oracle) {}

  const std::vector<LayerSpec>& layers() const override { return scenario_.coordinator.layers; }
  void initialize(size_t, uint64_t, std::span<float>) override {}

  StepStats backward(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready) override {
    oracle_.computes(worker_, batch, weights);
    const size_t bad = non_finite_layer(batch.seed, scenario_.non_finite, layers().size());
    for (size_t layer = layers().size(); layer-- > 0;) {
      const Tensor& seen = scenario_.reads_weights[layer] ? weights[layer] : Tensor{};
      const std::vector<float> values =
          gradient(batch.seed, batch.samples, static_cast<ps::LayerId>(layer), layers()[layer].count, seen);
      Tensor g = Tensor::from<float>(values, {layers()[layer].count});
      if (layer == bad) g.data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
      ready(layer, std::move(g));
    }
    return {0, 0, static_cast<int64_t>(batch.samples.size())};
  }

  StepStats evaluate(std::span<const uint32_t> samples, std::span<const Tensor> weights) override {
    if (*current_) oracle_.evaluates(worker_, weights);  // a zombie may look at what is long past
    return {0, 0, static_cast<int64_t>(samples.size())};
  }
  int64_t train_samples() const override { return scenario_.coordinator.dealer.train_samples; }
  int64_t test_samples() const override { return scenario_.coordinator.test_samples; }

 private:
  const Scenario& scenario_;
  ps::WorkerId worker_;
  std::shared_ptr<bool> current_;
  Oracle& oracle_;
};

}  // namespace

std::unique_ptr<GradientSource> make_simulated_source(const Scenario& scenario, ps::WorkerId worker,
                                                      std::shared_ptr<bool> current, Oracle& oracle) {
  return std::make_unique<SimulatedSource>(scenario, worker, std::move(current), oracle);
}

}  // namespace troupe::sim
