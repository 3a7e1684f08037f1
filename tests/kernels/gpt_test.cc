// The transformer as a model: its gradients, tied weights, recomputed blocks, and what passes between blocks.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <set>

#include <tests/support/finite_differences.h>
#include <troupe/kernels/nn/loss.h>
#include <troupe/kernels/nn/make_model.h>

using namespace troupe;
using nn::ModelSpec;

namespace {

ModelSpec small_gpt() {
  return {.kind = "gpt", .input = {6}, .classes = 11, .layers = 2, .heads = 2, .width = 8, .context = 7};
}

ModelSpec modern_gpt() {
  ModelSpec spec = small_gpt();
  spec.positions = "rotary";
  spec.mlp = "swiglu";
  spec.tied = false;
  return spec;
}

nn::Model built(const ModelSpec& spec) {
  auto model = nn::make_model(spec);
  BOOST_REQUIRE_MESSAGE(model.has_value(), model.error().message);
  return std::move(*model);
}

Tensor tokens(uint64_t seed, Shape shape, int64_t vocabulary) {
  Random random(seed);
  Tensor ids = Tensor::empty(shape, DType::i32);
  for (int32_t& id : ids.span<int32_t>()) id = static_cast<int32_t>(random.below(static_cast<uint64_t>(vocabulary)));
  return ids;
}

// A model with three sequences; in double precision unless told otherwise.
struct Example {
  explicit Example(const ModelSpec& spec, DType dtype = DType::f64) : model(built(spec)) {
    for (size_t layer = 0; layer < model.layers().size(); ++layer) {
      std::vector<float> values(static_cast<size_t>(model.layers()[layer].count));
      model.initialize(layer, 1, values);
      for (float& value : values) value *= 10;  // so that no gradient is lost in rounding
      weights.push_back(test::as(dtype, Tensor::from(std::span<const float>(values), {model.layers()[layer].count})));
    }
    x = tokens(5, nn::batch_shape(3, spec.input), spec.classes);
    labels = tokens(6, x.shape(), spec.classes);
  }

  nn::Pass pass() { return {stream, ops::cpu_ops(), true, 3}; }

  StepStats forward() {
    context.begin(x);
    model.forward(pass(), weights, 0, weights.size(), context);
    return nn::softmax_cross_entropy(pass(), context.take_output(), labels, dlogits);
  }

  std::vector<Tensor> gradients() {
    std::vector<Tensor> all(weights.size());
    forward();
    model.backward(
        pass(), weights, dlogits,
        [&](size_t layer, Tensor gradient) {
          BOOST_TEST(!all[layer], "layer " << layer << " comes twice");
          all[layer] = std::move(gradient);
        },
        context);
    return all;
  }

  nn::Model model;
  std::vector<Tensor> weights;
  Tensor x, labels, dlogits;
  Stream stream;
  nn::ModelContext context;
};

void check_gradients(const ModelSpec& spec) {
  Example example(spec);
  const auto gradients = example.gradients();
  for (size_t layer = 0; layer < gradients.size(); ++layer) {
    const Tensor probed = test::finite_differences(
        example.weights[layer], [&] { return example.forward().loss_sum; }, 40);
    BOOST_TEST(test::gradient_difference(gradients[layer], probed, 1e-6) == "", example.model.layers()[layer].name);
  }
}

void check_same_gradients(const ModelSpec& spec, const ModelSpec& other) {
  const auto expected = Example(spec, DType::f32).gradients(), actual = Example(other, DType::f32).gradients();
  BOOST_REQUIRE(actual.size() == expected.size());
  for (size_t layer = 0; layer < expected.size(); ++layer)
    BOOST_TEST(test::same_bits(actual[layer], expected[layer]), "layer " << layer);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gpt)

BOOST_AUTO_TEST_CASE(GradientsAreRightWithAndWithoutTiedWeights) {
  check_gradients(small_gpt());
  check_gradients(modern_gpt());
  ModelSpec dropped = small_gpt();
  dropped.dropout = 0.2;
  dropped.mlp = "gelu_tanh";
  check_gradients(dropped);
}

BOOST_AUTO_TEST_CASE(LayersHaveTheirNamesAndAFamiliarNumberOfParameters) {
  const nn::Model model = built(small_gpt());
  std::vector<std::string> names;
  for (const LayerSpec& layer : model.layers()) names.push_back(layer.name);
  BOOST_TEST(names == (std::vector<std::string>{"embedding", "positions", "block1_norm1", "block1_qkv",
                                                "block1_projection", "block1_norm2", "block1_mlp1", "block1_mlp2",
                                                "block2_norm1", "block2_qkv", "block2_projection", "block2_norm2",
                                                "block2_mlp1", "block2_mlp2", "norm"}));
  // GPT-2's smallest: 124,439,808 parameters.
  const ModelSpec gpt2{.kind = "gpt", .input = {1024}, .classes = 50257, .layers = 12, .heads = 12, .width = 768,
                       .context = 1024};
  const nn::Model large = built(gpt2);
  int64_t count = 0;
  for (const LayerSpec& layer : large.layers()) count += layer.count;
  BOOST_TEST(count == 124439808);
}

BOOST_AUTO_TEST_CASE(AnUntiedHeadIsALayerOfItsOwn) {
  const nn::Model model = built(modern_gpt());
  BOOST_TEST(model.layers().back().name == "head");
  BOOST_TEST((model.output_shape() == Shape{6, 11}));
}

BOOST_AUTO_TEST_CASE(TheLossIsTheMeanOverPositionsSummedOverSamples) {
  Example example(small_gpt());
  for (Tensor& weights : example.weights)
    for (double& value : weights.span<double>()) value = 0;
  const StepStats stats = example.forward();
  BOOST_TEST(stats.samples == 3);
  BOOST_TEST(std::abs(stats.loss_sum - 3 * std::log(11.0)) < 1e-12);
  double sum = 0;
  for (int64_t i = 0; i < example.dlogits.count(); ++i) sum += std::abs(test::at(example.dlogits, i));
  BOOST_TEST(std::abs(sum - 3 * 2 * (10.0 / 11)) < 1e-12);
}

BOOST_AUTO_TEST_CASE(RecomputedBlocksGiveTheSameGradientsBitForBit) {
  for (ModelSpec spec : {small_gpt(), modern_gpt()}) {
    spec.dropout = 0.3;
    spec.layers = 3;
    ModelSpec other = spec;
    other.recompute = "full";
    check_same_gradients(spec, other);
    other.recompute = "every_n";
    other.recompute_every = 2;
    check_same_gradients(spec, other);
  }
}

BOOST_AUTO_TEST_CASE(RecomputedBlocksKeepLessMemoryBetweenTheHalves) {
  ModelSpec spec = small_gpt();
  spec.layers = 8;
  spec.width = 64;
  spec.input = {64};
  spec.context = 64;
  const auto kept = [](const ModelSpec& s) {
    Example example(s, DType::f32);
    const size_t before = buffer_stats().used_bytes;
    example.forward();
    return buffer_stats().used_bytes - before;
  };
  const size_t all = kept(spec);
  spec.recompute = "full";
  BOOST_TEST(kept(spec) * 5 < all);
}

BOOST_AUTO_TEST_CASE(OneTensorPassesBetweenBlocks) {
  const nn::Model model = built(small_gpt());
  std::set<std::string> names;
  for (size_t layer : model.cuts()) names.insert(model.layers()[layer].name);
  for (const char* block : {"positions", "block1_norm1", "block2_norm1", "norm"})
    BOOST_TEST(names.contains(block), block);
  for (const char* inner : {"block1_qkv", "block2_projection", "block1_mlp1", "block2_mlp2"})
    BOOST_TEST(!names.contains(inner), inner);
}

BOOST_AUTO_TEST_CASE(ASequenceMayBeShorterThanTheContext) {
  Example example(small_gpt());
  example.context.begin(example.x);
  example.model.forward(example.pass(), example.weights, 0, example.weights.size(), example.context);
  const Tensor whole = example.context.take_output();
  example.context.begin(example.x.view(0, {1, 4}));
  example.model.forward(example.pass(), example.weights, 0, example.weights.size(), example.context);
  BOOST_TEST(test::difference(example.context.take_output(), whole.view(0, {4, 11}), 1e-12) == "");
}

BOOST_AUTO_TEST_CASE(SettingsThatFitNeitherEachOtherNorTheDataAreRefused) {
  const auto refused = [](auto change, const std::string& setting) {
    ModelSpec spec = small_gpt();
    change(spec);
    const auto model = nn::make_model(spec);
    BOOST_REQUIRE_MESSAGE(!model.has_value(), setting);
    BOOST_TEST((model.error().kind == ErrorKind::invalid));
    BOOST_TEST(model.error().message.find(setting) != std::string::npos, model.error().message);
  };
  refused([](ModelSpec& s) { s.heads = 3; }, "model.heads");
  refused([](ModelSpec& s) { s.heads = 0; }, "model.heads");
  refused([](ModelSpec& s) { s.layers = 0; }, "model.layers");
  refused([](ModelSpec& s) { s.width = 6, s.positions = "rotary"; }, "rotary");
  refused([](ModelSpec& s) { s.context = 5; }, "model.context");
  refused([](ModelSpec& s) { s.input = {1, 8, 8}; }, "data.format");
  refused([](ModelSpec& s) { s.mlp = "relu"; }, "model.mlp");
  refused([](ModelSpec& s) { s.positions = "sinus"; }, "model.positions");
  refused([](ModelSpec& s) { s.recompute = "half"; }, "model.recompute");
  refused([](ModelSpec& s) { s.recompute_every = 0; }, "model.recompute_every");
  refused([](ModelSpec& s) { s.hidden = {3}; }, "model.hidden");
}

BOOST_AUTO_TEST_SUITE_END()
