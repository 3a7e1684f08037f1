#include "simulated_source.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/param/rows.h>

#include "gradient.h"
#include "row_values.h"

namespace troupe::sim {
namespace {

class SimulatedSource final : public GradientSource {
 public:
  SimulatedSource(const Scenario& scenario, ps::WorkerId worker, std::shared_ptr<bool> current, Oracle& oracle)
      : scenario_(scenario), worker_(worker), current_(std::move(current)), oracle_(oracle) {}

  const std::vector<LayerSpec>& layers() const override { return scenario_.coordinator.layers; }
  void initialize(size_t, uint64_t, std::span<float>) override {}

  Tensor rows(const Batch& batch, size_t layer) override {
    return step_rows(batch.seed, static_cast<ps::LayerId>(layer), layers()[layer]);
  }

  void forward(const Batch&, std::span<const Tensor> weights, size_t first, size_t last) override {
    read_.resize(layers().size());
    std::copy(weights.begin() + static_cast<std::ptrdiff_t>(first), weights.begin() + static_cast<std::ptrdiff_t>(last),
              read_.begin() + static_cast<std::ptrdiff_t>(first));
  }

  StepStats backward(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready) override {
    oracle_.computes(worker_, batch, weights);
    for (size_t layer = 0; layer < layers().size(); ++layer)
      if (!std::ranges::equal(std::as_const(read_.at(layer)).span<float>(), weights[layer].span<float>()))
        oracle_.violated("staleness", cat("worker ", worker_, " goes back through ", layers()[layer].name,
                                          " with other weights than it went forward with"));
    read_.clear();
    const size_t bad = non_finite_layer(batch.seed, scenario_.non_finite, layers().size());
    for (size_t layer = layers().size(); layer-- > 0;) {
      const Tensor& seen = scenario_.reads_weights[layer] ? weights[layer] : Tensor{};
      const std::vector<float> values =
          gradient(batch.seed, batch.samples, static_cast<ps::LayerId>(layer), layers()[layer].count, seen);
      Tensor g = Tensor::from<float>(values, {layers()[layer].count});
      if (const int64_t width = layers()[layer].row_width; width > 0) {
        const Tensor named = rows(batch, layer);
        g = ps::gather_rows(g, 0, named.span<int32_t>(), width);
      }
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
  std::vector<Tensor> read_;  ///< by layer: what the step that runs went forward with
};

class SimulatedStage final : public StageSource {
 public:
  SimulatedStage(const Scenario& scenario, ps::WorkerId worker, std::shared_ptr<bool> current, Oracle& oracle)
      : scenario_(scenario), worker_(worker), stage_(worker % scenario.stages()), current_(std::move(current)),
        oracle_(oracle), sums_(layers().size()) {}

  const std::vector<LayerSpec>& layers() const override { return scenario_.coordinator.layers; }

  Tensor forward(const MicroBatch& micro, std::span<const Tensor> weights, Tensor x) override {
    if (micro.training && micro.index == 0) oracle_.computes(worker_, micro.seed, weights);
    if (!micro.training && micro.index == 0 && *current_) oracle_.evaluates(worker_, weights);
    if (stage_ > 0) expect(x, name(micro, stage_ - 1), "outputs");
    const bool last = stage_ + 1 == scenario_.stages();
    if (last) samples_ += static_cast<int64_t>(micro.samples.size());
    return last ? Tensor{} : name(micro, stage_);
  }
  Tensor backward_input(const MicroBatch& micro, std::span<const Tensor>, Tensor doutput) override {
    if (stage_ + 1 < scenario_.stages()) expect(doutput, name(micro, stage_ + 101), "gradients");
    return stage_ == 0 ? Tensor{} : name(micro, stage_ + 100);
  }
  void backward_weight(const MicroBatch& micro, std::span<const Tensor> weights) override {
    seed_ = micro.seed;
    for (ps::LayerId layer = 0; layer < layers().size(); ++layer) {
      if (!scenario_.computes(worker_, layer)) continue;
      const Tensor& seen = scenario_.reads_weights[layer] ? weights[layer] : Tensor{};
      const std::vector<float> part = gradient(micro.seed, micro.samples, layer, layers()[layer].count, seen);
      if (!sums_[layer]) sums_[layer] = Tensor::zeros({layers()[layer].count});
      for (size_t i = 0; i < part.size(); ++i) sums_[layer].data<float>()[i] += part[i];
    }
  }
  Tensor take_gradient(size_t layer) override {
    Tensor sum = std::exchange(sums_[layer], {});
    if (layer == non_finite_layer(seed_, scenario_.non_finite, layers().size()))
      sum.data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
    return sum;
  }
  StepStats take_stats() override { return {0, 0, std::exchange(samples_, 0)}; }
  void reset() override { sums_.assign(layers().size(), {}); }

 private:
  static Tensor name(const MicroBatch& micro, uint32_t what) {
    uint64_t sum = micro.seed % 4093 + what * 17 + micro.index * 3;
    for (const uint32_t sample : micro.samples) sum += sample;
    const float value = static_cast<float>(sum);
    return Tensor::from(std::span<const float>(&value, 1), {1});
  }
  void expect(const Tensor& given, const Tensor& wanted, const char* what) {
    if (!*current_) return;  // its replica may be at another step
    if (!given || given.data<float>()[0] != wanted.data<float>()[0])
      oracle_.violated("stage", cat("worker ", worker_, " is given other ", what, " than its micro-batch's"));
  }

  const Scenario& scenario_;
  ps::WorkerId worker_;
  uint32_t stage_;
  std::shared_ptr<bool> current_;
  Oracle& oracle_;
  std::vector<Tensor> sums_;
  uint64_t seed_ = 0;
  int64_t samples_ = 0;
};

}  // namespace

std::unique_ptr<StageSource> make_simulated_stage(const Scenario& scenario, ps::WorkerId worker,
                                                  std::shared_ptr<bool> current, Oracle& oracle) {
  return std::make_unique<SimulatedStage>(scenario, worker, std::move(current), oracle);
}

std::unique_ptr<GradientSource> make_simulated_source(const Scenario& scenario, ps::WorkerId worker,
                                                      std::shared_ptr<bool> current, Oracle& oracle) {
  return std::make_unique<SimulatedSource>(scenario, worker, std::move(current), oracle);
}

}  // namespace troupe::sim
