#include <boost/test/unit_test.hpp>

#include <numeric>

#include <tests/support/random_samples.h>
#include <tests/support/random_tokens.h>
#include <tests/support/tensors.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>
#include <troupe/kernels/nn/model_stage_source.h>

using namespace troupe;
using nn::ModelSpec;

namespace {

std::shared_ptr<const nn::Model> built(const ModelSpec& spec) {
  auto model = nn::make_model(spec);
  BOOST_REQUIRE_MESSAGE(model.has_value(), model.error().message);
  return std::make_shared<const nn::Model>(std::move(*model));
}

struct Trained {
  std::vector<Tensor> gradients;
  StepStats stats;
};

std::shared_ptr<const nn::Dataset> data_for(const ModelSpec& spec) {
  if (spec.kind == "gpt") return std::make_shared<test::RandomTokens>(64, spec.input[0], spec.classes);
  return std::make_shared<test::RandomSamples>(spec.input, spec.classes);
}

/// What `work` makes, and leaves `given`, a neighbour's, as it was.
template <class Work>
Tensor untouched(const Tensor& given, const Work& work) {
  const Tensor before = given ? given.clone() : Tensor{};
  Tensor made = work();
  const bool same = !given || std::memcmp(before.raw(), given.raw(), given.bytes()) == 0;
  BOOST_TEST(same, "a neighbour's tensor was written");
  return made;
}

struct Fixture {
  explicit Fixture(const ModelSpec& spec) : model(built(spec)), data(data_for(spec)) {
    for (size_t layer = 0; layer < model->layers().size(); ++layer) {
      Tensor values = Tensor::empty({model->layers()[layer].count});
      model->initialize(layer, 3, values.span<float>());
      weights.push_back(values);
    }
  }

  Trained whole(std::span<const uint32_t> samples) const {
    nn::ModelSource source(model, data, data);
    Trained out{std::vector<Tensor>(weights.size()), {}};
    out.stats =
        source.backward({samples, 7}, weights, [&](size_t layer, Tensor gradient) { out.gradients[layer] = gradient; });
    return out;
  }

  // Every micro-batch forward through all parts, then back in the order given, weight gradients last of all.
  Trained in_parts(std::span<const uint32_t> samples, std::vector<size_t> cuts, std::vector<size_t> sizes) const {
    cuts.insert(cuts.begin(), 0);
    cuts.push_back(model->layers().size());
    std::vector<nn::ModelPart> parts;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) parts.emplace_back(model, cuts[i], cuts[i + 1]);
    nn::ModelStageSource source(model, parts, data, data);
    std::vector<MicroBatch> micros;
    size_t begin = 0;
    for (size_t i = 0; i < sizes.size(); begin += sizes[i++])
      micros.push_back(
          {static_cast<uint32_t>(i), 0, samples.subspan(begin, sizes[i]), static_cast<int64_t>(begin), 7, true});
    const auto at = [&](size_t micro, size_t part) {
      MicroBatch m = micros[micro];
      m.part = static_cast<uint32_t>(part);
      return m;
    };
    for (size_t m = 0; m < micros.size(); ++m) {
      Tensor x;
      for (size_t p = 0; p < parts.size(); ++p)
        x = untouched(x, [&] { return source.forward(at(m, p), weights, x); });
    }
    BOOST_TEST(source.under_way() == micros.size() * parts.size());
    for (size_t m = micros.size(); m-- > 0;) {
      Tensor dy;
      for (size_t p = parts.size(); p-- > 0;)
        dy = untouched(dy, [&] { return source.backward_input(at(m, p), weights, dy); });
      BOOST_TEST(!dy);
    }
    for (size_t m = 0; m < micros.size(); ++m)
      for (size_t p = 0; p < parts.size(); ++p) source.backward_weight(at(m, p), weights);
    BOOST_TEST(source.under_way() == 0u);
    Trained out;
    for (size_t layer = 0; layer < weights.size(); ++layer) out.gradients.push_back(source.take_gradient(layer));
    out.stats = source.take_stats();
    return out;
  }

  void check_equal(std::vector<size_t> cuts, std::vector<size_t> sizes) const {
    std::vector<uint32_t> samples(std::accumulate(sizes.begin(), sizes.end(), size_t{0}));
    std::iota(samples.begin(), samples.end(), 5u);
    const Trained expected = whole(samples), actual = in_parts(samples, std::move(cuts), std::move(sizes));
    for (size_t layer = 0; layer < weights.size(); ++layer)
      BOOST_TEST(test::difference(actual.gradients[layer], expected.gradients[layer], 1e-5) == "",
                 model->layers()[layer].name
                     << ": " << test::difference(actual.gradients[layer], expected.gradients[layer], 1e-5));
    BOOST_TEST(std::abs(actual.stats.loss_sum - expected.stats.loss_sum) < 1e-4);
    BOOST_TEST(actual.stats.correct == expected.stats.correct);
    BOOST_TEST(actual.stats.samples == expected.stats.samples);
  }

  std::shared_ptr<const nn::Model> model;
  std::shared_ptr<const nn::Dataset> data;
  std::vector<Tensor> weights;
};

const ModelSpec kMlp{
    .kind = "mlp", .input = {6}, .classes = 3, .hidden = {8, 7, 5, 4}, .dropout = 0.3, .layer_norm = true};
const ModelSpec kCnn{.kind = "cnn", .input = {2, 8, 8}, .classes = 3, .hidden = {5}, .channels = {3, 4}};
const ModelSpec kResnet{.kind = "resnet", .input = {1, 6, 6}, .classes = 3, .channels = {3, 4}, .blocks = {1, 2}};

ModelSpec bottlenecks(const char* recompute) {
  ModelSpec spec = kResnet;
  spec.input = {1, 15, 15};
  spec.block = "bottleneck";
  spec.stem = "large";
  spec.recompute = recompute;
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(model_part)

BOOST_AUTO_TEST_CASE(APartAtATimeGivesTheGradientsOfTheWhole) {
  const Fixture mlp(kMlp);
  mlp.check_equal({}, {9});
  mlp.check_equal({2, 5}, {9});
  for (size_t cut : mlp.model->cuts()) mlp.check_equal({cut}, {4});
}

// Dropout among it: a micro-batch draws what its samples draw in the whole batch.
BOOST_AUTO_TEST_CASE(MicroBatchesOfAnySizeGiveTheGradientsOfTheBatch) {
  const Fixture mlp(kMlp), cnn(kCnn);
  mlp.check_equal({3}, {4, 4, 1});
  mlp.check_equal({1, 2, 3, 4}, {1, 2, 3, 0, 2});
  cnn.check_equal({1, 2}, {3, 3, 2});
}

BOOST_AUTO_TEST_CASE(AResidualBlockIsNotCut) {
  const Fixture resnet(kResnet);
  const std::vector<size_t> cuts = resnet.model->cuts();
  BOOST_TEST(!cuts.empty());
  BOOST_TEST(cuts.size() < resnet.model->layers().size() - 1);
  for (size_t cut : cuts) resnet.check_equal({cut}, {6});  // batch norm sees the whole batch
  for (size_t layer = 1; layer < resnet.model->layers().size(); ++layer)
    if (!std::ranges::binary_search(cuts, layer))
      BOOST_CHECK_THROW(nn::ModelPart(resnet.model, 0, layer), std::exception);
}

BOOST_AUTO_TEST_CASE(BottlenecksBehindALargeStemAreCutBetweenThemRecomputedToo) {
  for (const char* recompute : {"none", "full"}) {
    const Fixture resnet(bottlenecks(recompute));
    const std::vector<size_t> cuts = resnet.model->cuts();
    std::vector<std::string> names;
    for (const size_t layer : cuts) names.push_back(resnet.model->layers()[layer].name);
    for (const char* begin : {"group1_block1_conv1", "group2_block1_conv1", "group2_block2_conv1", "fc"})
      BOOST_TEST(std::ranges::count(names, begin) == 1, begin);
    BOOST_TEST(std::ranges::count(names, "group2_block1_conv2") == 0);
    resnet.check_equal(cuts, {6});
  }
}

ModelSpec small_gpt() {
  ModelSpec spec;
  spec.kind = "gpt";
  spec.input = {7};
  spec.classes = 11;
  spec.layers = 3;
  spec.heads = 2;
  spec.width = 8;
  spec.context = 7;
  spec.dropout = 0.2;
  return spec;
}

// The embedding is a layer of the first part and of the last, which both add to its gradient.
BOOST_AUTO_TEST_CASE(ATransformerIsCutBetweenItsBlocksTiedAndRecomputedToo) {
  for (const char* recompute : {"none", "full"})
    for (const bool tied : {true, false}) {
      ModelSpec spec = small_gpt();
      spec.tied = tied;
      spec.recompute = recompute;
      const Fixture gpt(spec);
      const std::vector<size_t> cuts = gpt.model->cuts();
      BOOST_TEST(cuts.size() >= 3u);
      for (size_t cut : cuts) gpt.check_equal({cut}, {2, 2, 1});
      gpt.check_equal(cuts, {2, 3});
      BOOST_TEST(gpt.model->tied().size() == (tied ? 1u : 0u));
    }
}

BOOST_AUTO_TEST_CASE(AMicroBatchOfTheWrongShapeIsNamed) {
  const Fixture mlp(kMlp);
  nn::ModelStageSource source(mlp.model, {nn::ModelPart(mlp.model, 2, mlp.model->layers().size())}, mlp.data, mlp.data);
  const std::vector<uint32_t> samples{1, 2};
  BOOST_CHECK_THROW(source.forward({0, 0, samples, 0, 7, true}, mlp.weights, Tensor::zeros({3, 8})), std::exception);
  BOOST_CHECK_THROW(source.forward({1, 0, samples, 0, 7, true}, mlp.weights, {}), std::exception);
}

BOOST_AUTO_TEST_CASE(AStageThatIsResetStartsItsStepAgain) {
  const Fixture mlp(kMlp);
  nn::ModelStageSource source(mlp.model, {nn::ModelPart(mlp.model, 0, mlp.model->layers().size())}, mlp.data, mlp.data);
  const std::vector<uint32_t> samples{1, 2, 3};
  const MicroBatch micro{0, 0, samples, 0, 7, true};
  source.forward(micro, mlp.weights, {});
  source.backward_input(micro, mlp.weights, {});
  source.backward_weight(micro, mlp.weights);
  source.reset();
  source.forward(micro, mlp.weights, {});
  source.backward_input(micro, mlp.weights, {});
  source.backward_weight(micro, mlp.weights);
  const Trained expected = mlp.whole(samples);
  BOOST_TEST(test::difference(source.take_gradient(0), expected.gradients[0], 1e-6) == "");
  BOOST_TEST(source.take_stats().samples == 3);
}

BOOST_AUTO_TEST_SUITE_END()
