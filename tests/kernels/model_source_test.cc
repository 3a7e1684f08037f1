#include <boost/test/unit_test.hpp>

#include <numeric>

#include <tests/support/tensors.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>

using namespace troupe;

namespace {

// Samples around one centre a class, so that a model can tell them apart.
class Clusters final : public nn::Dataset {
 public:
  Clusters(Shape sample, int64_t size, uint64_t seed) : sample_(sample), size_(size), seed_(seed) {}
  int64_t size() const override { return size_; }
  Shape sample_shape() const override { return sample_; }
  int64_t classes() const override { return 3; }
  void gather(std::span<const uint32_t> samples, Tensor& inputs, Tensor& labels) const override {
    float* out = inputs.data<float>();
    for (size_t i = 0; i < samples.size(); ++i) {
      TROUPE_CHECK(samples[i] < size_, samples[i]);
      const uint32_t label = samples[i] % 3;
      labels.data<int32_t>()[i] = static_cast<int32_t>(label);
      Random centre(label), noise(derive_seed(seed_, "sample", samples[i]));
      for (int64_t j = 0; j < sample_.count(); ++j) *out++ = static_cast<float>(centre.normal() + 0.3 * noise.normal());
    }
  }

 private:
  Shape sample_;
  int64_t size_;
  uint64_t seed_;
};

nn::ModelSpec mlp_spec() { return {.kind = "mlp", .input = {10}, .classes = 3, .hidden = {8}, .dropout = 0.2}; }
nn::ModelSpec cnn_spec() {
  return {.kind = "cnn", .input = {1, 8, 8}, .classes = 3, .hidden = {8}, .channels = {4, 6}, .batch_norm = true};
}

struct Fixture {
  explicit Fixture(const nn::ModelSpec& spec)
      : source(std::make_shared<nn::Model>(std::move(*nn::make_model(spec))),
               std::make_shared<Clusters>(spec.input, 600, 1), std::make_shared<Clusters>(spec.input, 300, 2)) {
    for (size_t layer = 0; layer < source.layers().size(); ++layer) {
      Tensor values = Tensor::empty({source.layers()[layer].count});
      source.initialize(layer, 1, values.span<float>());
      weights.push_back(std::move(values));
    }
  }

  struct Step {
    StepStats stats;
    std::vector<Tensor> gradients;
  };
  Step step(const std::vector<uint32_t>& samples, uint64_t seed = 3) {
    Step step;
    step.gradients.resize(weights.size());
    step.stats = source.backward({samples, seed}, weights,
                                 [&](size_t layer, Tensor gradient) { step.gradients[layer] = std::move(gradient); });
    return step;
  }

  nn::ModelSource source;
  std::vector<Tensor> weights;
};

std::vector<uint32_t> range(uint32_t begin, uint32_t end) {
  std::vector<uint32_t> samples(end - begin);
  std::iota(samples.begin(), samples.end(), begin);
  return samples;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(model_source)

BOOST_AUTO_TEST_CASE(AStepInRangesEqualsAStepInOne) {
  for (const auto& spec : {mlp_spec(), cnn_spec()}) {
    Fixture whole(spec), parts(spec);
    const auto samples = range(0, 17);
    const auto expected = whole.step(samples);
    const size_t count = parts.weights.size();
    parts.source.forward({samples, 3}, parts.weights, 0, 1);
    parts.source.forward({samples, 3}, parts.weights, 1, count);
    const auto actual = parts.step(samples);
    BOOST_TEST(actual.stats.loss_sum == expected.stats.loss_sum);
    for (size_t layer = 0; layer < count; ++layer)
      BOOST_TEST(test::same_bits(actual.gradients[layer], expected.gradients[layer]), spec.kind << " " << layer);
  }
}

BOOST_AUTO_TEST_CASE(APreparedStepEqualsOneThatIsNot) {
  Fixture plain(cnn_spec()), prepared(cnn_spec());
  const auto samples = range(0, 17), others = range(20, 30);
  const auto expected = plain.step(samples);
  const auto check_step = [&] {
    const auto actual = prepared.step(samples);
    BOOST_TEST(actual.stats.loss_sum == expected.stats.loss_sum);
    BOOST_TEST(test::same_bits(actual.gradients[0], expected.gradients[0]));
  };
  prepared.source.prepare({samples, 3});
  check_step();
  prepared.source.prepare({samples, 3});
  prepared.source.evaluate(range(0, 50), prepared.weights);  // takes the memory that was prepared
  check_step();
  prepared.source.prepare({others, 3});  // a step that does not come
  check_step();
}

BOOST_AUTO_TEST_CASE(BackwardCompletesAForwardThatWentHalfWay) {
  Fixture whole(cnn_spec()), half(cnn_spec());
  const auto samples = range(0, 9);
  half.source.forward({samples, 3}, half.weights, 0, 2);
  BOOST_TEST(test::same_bits(half.step(samples).gradients[0], whole.step(samples).gradients[0]));
}

BOOST_AUTO_TEST_CASE(ABackwardPassOfAnotherBatchIsABug) {
  Fixture fixture(mlp_spec());
  const auto samples = range(0, 9);
  fixture.source.forward({samples, 3}, fixture.weights, 0, fixture.weights.size());
  BOOST_CHECK_THROW(fixture.step(range(1, 10)), CheckFailure);
}

BOOST_AUTO_TEST_CASE(GradientsAreSumsOverSamples) {
  auto spec = mlp_spec();
  spec.dropout = 0;
  Fixture fixture(spec);
  const auto left = fixture.step(range(0, 20)), right = fixture.step(range(20, 50)), both = fixture.step(range(0, 50));
  BOOST_TEST(std::abs(left.stats.loss_sum + right.stats.loss_sum - both.stats.loss_sum) < 1e-4);
  BOOST_TEST(left.stats.correct + right.stats.correct == both.stats.correct);
  BOOST_TEST(both.stats.samples == 50);
  for (size_t layer = 0; layer < both.gradients.size(); ++layer) {
    Tensor sum = left.gradients[layer].clone();
    for (int64_t i = 0; i < sum.count(); ++i) sum.data<float>()[i] += right.gradients[layer].data<float>()[i];
    BOOST_TEST(test::difference(sum, both.gradients[layer], 1e-5) == "");
  }
}

BOOST_AUTO_TEST_CASE(APublishedGradientIsNeverWrittenAgain) {
  Fixture fixture(cnn_spec());
  const auto first = fixture.step(range(0, 12));
  std::vector<Tensor> copies;
  for (const Tensor& gradient : first.gradients) copies.push_back(gradient.clone());
  fixture.step(range(12, 24));
  fixture.source.evaluate(range(0, 50), fixture.weights);
  for (size_t layer = 0; layer < copies.size(); ++layer)
    BOOST_TEST(test::same_bits(first.gradients[layer], copies[layer]));
}

BOOST_AUTO_TEST_CASE(ABatchWithoutSamplesGivesZeroGradients) {
  for (const auto& spec : {mlp_spec(), cnn_spec()}) {
    Fixture fixture(spec);
    const auto step = fixture.step({});
    BOOST_TEST(step.stats.samples == 0);
    BOOST_TEST(step.stats.loss_sum == 0);
    for (size_t layer = 0; layer < step.gradients.size(); ++layer)
      BOOST_TEST(test::same_bits(step.gradients[layer], Tensor::zeros({fixture.source.layers()[layer].count})),
                 fixture.source.layers()[layer].name);
  }
}

BOOST_AUTO_TEST_CASE(DropoutFollowsTheStepsSeed) {
  Fixture fixture(mlp_spec());
  const auto samples = range(0, 30);
  const double loss = fixture.step(samples, 1).stats.loss_sum;
  BOOST_TEST(fixture.step(samples, 1).stats.loss_sum == loss);
  BOOST_TEST(fixture.step(samples, 2).stats.loss_sum != loss);
}

BOOST_AUTO_TEST_CASE(EvaluationIsASumThatBatchesDoNotChange) {
  Fixture fixture(mlp_spec());
  StepStats singles;
  for (uint32_t sample : range(0, 300)) {
    const StepStats one = fixture.source.evaluate(std::vector<uint32_t>{sample}, fixture.weights);
    singles.loss_sum += one.loss_sum;
    singles.correct += one.correct;
  }
  const StepStats all = fixture.source.evaluate(range(0, 300), fixture.weights);
  BOOST_TEST(all.samples == 300);
  BOOST_TEST(all.correct == singles.correct);
  BOOST_TEST(std::abs(all.loss_sum - singles.loss_sum) < 1e-3);
}

// Plain gradient descent with the statistics applied as they are: what a server does.
BOOST_AUTO_TEST_CASE(DescendingTheGradientLearns) {
  for (const auto& spec : {mlp_spec(), cnn_spec()}) {
    Fixture fixture(spec);
    for (uint32_t step = 0; step < 40; ++step) {
      const auto samples = range(step % 10 * 60, step % 10 * 60 + 60);
      const auto result = fixture.step(samples, step);
      for (size_t layer = 0; layer < fixture.weights.size(); ++layer)
        for (const ParamSpec& param : fixture.source.layers()[layer].params) {
          const float rate = param.kind == ParamKind::statistic ? 1.f : 0.3f;
          Tensor values = fixture.weights[layer].view(param.offset, param.shape);
          const Tensor gradient = result.gradients[layer].view(param.offset, param.shape);
          for (int64_t i = 0; i < values.count(); ++i) values.data<float>()[i] -= rate * gradient.data<float>()[i] / 60;
        }
    }
    const StepStats stats = fixture.source.evaluate(range(0, 300), fixture.weights);
    BOOST_TEST(stats.correct > 290, spec.kind << ": " << stats.correct << " of 300");
  }
}

BOOST_AUTO_TEST_CASE(AModelThatDoesNotFitTheDataIsABug) {
  const auto model = std::make_shared<nn::Model>(std::move(*nn::make_model(mlp_spec())));
  const auto images = std::make_shared<Clusters>(Shape{1, 8, 8}, 10, 1);
  BOOST_CHECK_THROW(nn::ModelSource(model, images, images), CheckFailure);
}

BOOST_AUTO_TEST_SUITE_END()
