#include <boost/test/unit_test.hpp>

#include <tests/support/cluster_lab.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(clipping)

namespace {

constexpr int64_t kCount = 100;  // elements a layer

/// Three layers whose gradient of one sample is 1, 2 and 3 in every element: the mean has the norm
/// sqrt(100 x (1 + 4 + 9)) = 10 sqrt(14).
class ConstantSource final : public GradientSource {
 public:
  ConstantSource() {
    for (const char* name : {"a", "b", "c"}) layers_.push_back({name, kCount, {{cat(name, ".weight"), {kCount}, 0}}});
  }
  const std::vector<LayerSpec>& layers() const override { return layers_; }
  void initialize(size_t, uint64_t, std::span<float> values) override { std::fill(values.begin(), values.end(), 0.f); }
  StepStats backward(const Batch& batch, std::span<const Tensor>, const GradientReady& ready) override {
    const auto samples = static_cast<int64_t>(batch.samples.size());
    for (size_t layer = layers_.size(); layer-- > 0;) {
      Tensor gradient = Tensor::empty({kCount});
      for (float& x : gradient.span<float>()) x = static_cast<float>(samples * static_cast<int64_t>(layer + 1));
      ready(layer, gradient);
    }
    return {0, 0, samples};
  }
  StepStats evaluate(std::span<const uint32_t> samples, std::span<const Tensor>) override {
    return {0, 0, static_cast<int64_t>(samples.size())};
  }
  int64_t train_samples() const override { return 64; }
  int64_t test_samples() const override { return 0; }

 private:
  std::vector<LayerSpec> layers_;
};

/// First parameter of each layer after one step of SGD with rate 1.
std::vector<double> after_one_step(std::vector<ps::Policy> policies, std::vector<int64_t> batch, uint32_t servers,
                                   double clip_norm) {
  auto first = std::make_shared<ConstantSource>();
  ClusterParts parts;
  parts.coordinator.layers = first->layers();
  parts.coordinator.policies = std::move(policies);
  parts.coordinator.layout = {.servers = servers, .slice_bytes = 128, .fuse_bytes = 0};
  parts.coordinator.dealer = {
      .train_samples = 64, .max_steps = 1, .global_batch = 16, .worker_batch = std::move(batch)};
  parts.coordinator.clip_norm = clip_norm;
  parts.source = [](ps::WorkerId) { return std::make_unique<ConstantSource>(); };
  parts.optimizer = ps::make_optimizer({.name = "sgd", .learning_rate = 1}).value();
  parts.immediate_scale = ps::ImmediateScale::none;
  parts.initial = initial_from(first, *parts.optimizer, 1);
  const Trial trial = train(std::move(parts));
  BOOST_TEST((trial.result.outcome == ps::Outcome::completed), trial.result.failure);
  const std::vector<float> all = trial.parameters();
  return {all[0], all[kCount], all[2 * kCount]};
}

const double kNorm = 10 * std::sqrt(14.);

void check_scaled(const std::vector<double>& parameters, double scale) {
  for (size_t layer = 0; layer < 3; ++layer)
    BOOST_TEST(parameters[layer] == -scale * static_cast<double>(layer + 1), boost::test_tools::tolerance(1e-6));
}

}  // namespace

BOOST_AUTO_TEST_CASE(AGradientBeyondTheNormIsScaledToItOverAllServers) {
  for (const std::vector<ps::Policy>& policies :
       {std::vector(3, kSync), std::vector(3, kAllReduce), {kSync, kAllReduce, kSync}})
    for (const uint32_t servers : {1u, 3u})
      for (const std::vector<int64_t>& batch : {std::vector<int64_t>{16}, {10, 6}})
        check_scaled(after_one_step(policies, batch, servers, 5), 5 / kNorm);
}

BOOST_AUTO_TEST_CASE(AGradientWithinTheNormIsLeftAlone) {
  check_scaled(after_one_step({kSync, kAllReduce, kSync}, {10, 6}, 3, 1.01 * kNorm), 1);
}

BOOST_AUTO_TEST_CASE(AnImmediatePushIsClippedByItself) {
  for (const ps::Policy& policy : {kSsp, kAsync})
    check_scaled(after_one_step(std::vector(3, policy), {16}, 3, 5), 5 / kNorm);
}

BOOST_AUTO_TEST_CASE(ATrainingRunConvergesWithItsGradientsClipped) {
  ClusterParts parts = Bench{}.parts({16, 16}, {kSync, kSsp, kAsync, kAllReduce});
  parts.coordinator.clip_norm = 0.5;
  parts.coordinator.dealer.epochs = 4;
  parts.coordinator.checkpoint_every_steps = 33;
  const Trial trial = train(std::move(parts));
  BOOST_TEST((trial.result.outcome == ps::Outcome::completed), trial.result.failure);
  BOOST_TEST(trial.accuracy() > 0.9);
}

BOOST_AUTO_TEST_SUITE_END()
