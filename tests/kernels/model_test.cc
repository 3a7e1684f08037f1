#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <numeric>

#include <tests/support/finite_differences.h>
#include <troupe/kernels/nn/loss.h>
#include <troupe/kernels/nn/make_model.h>

using namespace troupe;
using nn::ModelSpec;

namespace {

nn::Model built(const ModelSpec& spec) {
  auto model = nn::make_model(spec);
  BOOST_REQUIRE_MESSAGE(model.has_value(), model.error().message);
  return std::move(*model);
}

ModelSpec small_mlp() {
  return {.kind = "mlp", .input = {6}, .classes = 3, .hidden = {5, 4}};
}
ModelSpec small_cnn() {
  return {.kind = "cnn", .input = {2, 8, 8}, .classes = 3, .hidden = {5}, .channels = {3, 4}};
}
ModelSpec small_resnet() {
  return {.kind = "resnet", .input = {1, 6, 6}, .classes = 3, .channels = {3, 4}, .blocks = {1, 2}};
}
ModelSpec small_bottleneck() {
  return {.kind = "resnet",
          .input = {2, 15, 13},
          .classes = 3,
          .channels = {2, 3},
          .blocks = {1, 2},
          .block = "bottleneck",
          .stem = "large"};
}
ModelSpec image_net(const std::string& block, std::vector<int64_t> blocks) {
  return {.kind = "resnet",
          .input = {3, 224, 224},
          .classes = 1000,
          .channels = {64, 128, 256, 512},
          .blocks = std::move(blocks),
          .block = block,
          .stem = "large"};
}

int64_t parameters_of(const nn::Model& model) {
  int64_t count = 0;
  for (size_t layer = 0; layer < model.layers().size(); ++layer) count += model.parameters(layer);
  return count;
}

int64_t work_of(const nn::Model& model) {
  int64_t work = 0;
  for (size_t layer = 0; layer < model.layers().size(); ++layer) work += model.work(layer);
  return work;
}

// A model in double precision with a batch of five samples.
struct Example {
  explicit Example(const ModelSpec& spec) : model(built(spec)) {
    for (size_t layer = 0; layer < model.layers().size(); ++layer) {
      std::vector<float> values(static_cast<size_t>(model.layers()[layer].count));
      model.initialize(layer, 1, values);
      weights.push_back(
          test::as(DType::f64, Tensor::from(std::span<const float>(values), {model.layers()[layer].count})));
    }
    x = test::normal(5, nn::batch_shape(5, model.input_shape()));
    const std::vector<int32_t> classes{0, 2, 1, 2, 0};
    labels = Tensor::from(std::span<const int32_t>(classes), {5});
  }

  nn::Pass pass() { return {stream, ops::cpu_ops(), true, 3}; }

  double loss() {
    context.begin(x);
    model.forward(pass(), weights, 0, weights.size(), context);
    return nn::softmax_cross_entropy(pass(), context.take_output(), labels, dlogits).loss_sum;
  }

  std::vector<Tensor> gradients() {
    std::vector<Tensor> all(weights.size());
    loss();
    model.backward(
        pass(), weights, dlogits, [&](size_t layer, Tensor gradient) { all[layer] = std::move(gradient); },
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
    const LayerSpec& about = example.model.layers()[layer];
    Tensor probed = test::finite_differences(
        example.weights[layer], [&] { return example.loss(); }, 60);
    for (const ParamSpec& param : about.params)
      for (int64_t i = 0; param.kind == ParamKind::statistic && i < param.shape.count(); ++i)
        probed.data<double>()[param.offset + i] = std::nan("");
    BOOST_TEST(test::gradient_difference(gradients[layer], probed, 1e-6) == "",
               spec.kind << " " << about.name);
  }
}

std::vector<std::string> layer_names(const nn::Model& model) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : model.layers()) names.push_back(layer.name);
  return names;
}

// The spec with one field changed.
template <class Value>
ModelSpec with(ModelSpec spec, Value ModelSpec::*field, std::type_identity_t<Value> value) {
  spec.*field = std::move(value);
  return spec;
}

// make_model refuses the spec and names the setting.
void check_refused(const ModelSpec& spec, const std::string& setting) {
  const auto model = nn::make_model(spec);
  BOOST_REQUIRE_MESSAGE(!model.has_value(), setting);
  BOOST_TEST((model.error().kind == ErrorKind::invalid));
  BOOST_TEST(model.error().message.find(setting) != std::string::npos, model.error().message);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(models)

BOOST_AUTO_TEST_CASE(MlpGradientsAreRight) {
  check_gradients(small_mlp());
  ModelSpec spec = small_mlp();
  spec.activation = "gelu";
  spec.layer_norm = true;
  spec.dropout = 0.3;
  check_gradients(spec);
}

BOOST_AUTO_TEST_CASE(CnnGradientsAreRight) {
  check_gradients(small_cnn());
  ModelSpec spec = small_cnn();
  spec.activation = "gelu";
  check_gradients(spec);
  spec.activation = "relu";
  spec.batch_norm = true;
  check_gradients(spec);
}

BOOST_AUTO_TEST_CASE(ResnetGradientsAreRight) {
  check_gradients(small_resnet());
}

BOOST_AUTO_TEST_CASE(BottlenecksBehindALargeStemHaveTheRightGradients) {
  check_gradients(small_bottleneck());
  check_gradients(with(small_bottleneck(), &ModelSpec::activation, "gelu"));
}

BOOST_AUTO_TEST_CASE(ResnetsForImageNetHaveThePublishedSizes) {
  const nn::Model small = built(image_net("basic", {2, 2, 2, 2}));
  const nn::Model large = built(image_net("bottleneck", {3, 4, 6, 3}));
  BOOST_TEST(parameters_of(small) == 11'689'512);
  BOOST_TEST(parameters_of(large) == 25'557'032);
  // 1.81 and 4.09 G multiply-adds in convolutions and logits; norms, activations and pools make a few more.
  BOOST_TEST(std::abs(static_cast<double>(work_of(small)) / 1.81e9 - 1) < 0.02);
  BOOST_TEST(std::abs(static_cast<double>(work_of(large)) / 4.09e9 - 1) < 0.03);
  BOOST_TEST((large.shape_at(2) == Shape{64, 56, 56}));
}

BOOST_AUTO_TEST_CASE(RecomputedResidualBlocksGiveTheSameGradientsBitForBit) {
  for (const ModelSpec& spec : {small_resnet(), small_bottleneck()})
    for (const char* recompute : {"full", "every_n"}) {
      Example kept(spec), again(with(spec, &ModelSpec::recompute, recompute));
      const auto expected = kept.gradients(), actual = again.gradients();
      for (size_t layer = 0; layer < expected.size(); ++layer)
        BOOST_TEST(test::same_bits(actual[layer], expected[layer]),
                   recompute << ", " << kept.model.layers()[layer].name);
    }
}

BOOST_AUTO_TEST_CASE(GradientsComeInTheirOrderAndThoseOfLargeLayersFirstLayerFirstAtTheEnd) {
  for (const auto& [spec, order] : {std::pair(small_mlp(), std::vector<size_t>{0, 1, 2}),
                                    std::pair(small_cnn(), std::vector<size_t>{1, 0, 2, 3})}) {
    Example example(spec);
    BOOST_TEST(example.model.gradient_order() == order);
    std::vector<size_t> seen;
    example.loss();
    example.model.backward(
        example.pass(), example.weights, example.dlogits, [&](size_t layer, const Tensor&) { seen.push_back(layer); },
        example.context);
    BOOST_TEST(seen == order);
  }
}

BOOST_AUTO_TEST_CASE(LayersHaveTheNamesAndShapesOfTheirKind) {
  BOOST_TEST(layer_names(built(small_mlp())) == (std::vector<std::string>{"fc1", "fc2", "fc3"}));
  BOOST_TEST(layer_names(built(small_cnn())) == (std::vector<std::string>{"conv1", "conv2", "fc1", "fc2"}));
  BOOST_TEST(
      layer_names(built(small_resnet())) ==
      (std::vector<std::string>{"stem", "stem_bn", "group1_block1_conv1", "group1_block1_bn1",
                                "group1_block1_conv2", "group1_block1_bn2", "group2_block1_conv1",
                                "group2_block1_bn1", "group2_block1_conv2", "group2_block1_bn2",
                                "group2_block1_shortcut", "group2_block1_shortcut_bn", "group2_block2_conv1",
                                "group2_block2_bn1", "group2_block2_conv2", "group2_block2_bn2", "fc"}));
  const auto bottleneck = layer_names(built(small_bottleneck()));
  BOOST_TEST(std::vector(bottleneck.begin() + 2, bottleneck.begin() + 10) ==
             (std::vector<std::string>{"group1_block1_conv1", "group1_block1_bn1", "group1_block1_conv2",
                                       "group1_block1_bn2", "group1_block1_conv3", "group1_block1_bn3",
                                       "group1_block1_shortcut", "group1_block1_shortcut_bn"}));
  const LayerSpec fc1 = built(small_cnn()).layers()[2];
  BOOST_TEST(fc1.params[0].name == "fc1.weight");
  BOOST_TEST((fc1.params[0].shape == Shape{5, 16}));
  BOOST_TEST(fc1.params[1].offset == 80);
  BOOST_TEST(fc1.count == 85);
}

BOOST_AUTO_TEST_CASE(FirstParametersFollowFromTheSeedAlone) {
  const nn::Model model = built(small_mlp());
  std::vector<float> a(static_cast<size_t>(model.layers()[1].count)), b(a), c(a);
  model.initialize(1, 5, a);
  model.initialize(1, 5, b);
  model.initialize(1, 6, c);
  BOOST_TEST(a == b);
  BOOST_TEST(a != c);
  const double bound = 1 / std::sqrt(5.0);
  for (float value : a) BOOST_TEST(std::abs(value) <= bound);
  BOOST_TEST(*std::max_element(a.begin(), a.end()) > bound / 2);
}

BOOST_AUTO_TEST_CASE(AForwardPassInRangesEqualsOneForwardPass) {
  for (const ModelSpec& spec : {small_mlp(), small_cnn(), small_resnet()}) {
    Example example(spec);
    const size_t count = example.weights.size();
    const auto whole = example.gradients();

    example.context.begin(example.x);
    std::vector<Tensor> arrived(count);
    for (size_t layer = 0; layer < count; ++layer) {
      arrived[layer] = example.weights[layer];  // only what has come is there
      example.model.forward(example.pass(), arrived, layer, layer + 1, example.context);
      BOOST_TEST(example.model.layers_done(example.context) == layer + 1);
    }
    nn::softmax_cross_entropy(example.pass(), example.context.take_output(), example.labels, example.dlogits);
    example.model.backward(
        example.pass(), example.weights, example.dlogits,
        [&](size_t layer, Tensor gradient) {
          BOOST_TEST(test::same_bits(gradient, whole[layer]), spec.kind << " layer " << layer);
        },
        example.context);
  }
}

BOOST_AUTO_TEST_CASE(EveryGradientComesOnceInTheOrderThatIsSaid) {
  Example example(small_resnet());
  example.loss();
  std::vector<size_t> order, all(example.weights.size());
  example.model.backward(
      example.pass(), example.weights, example.dlogits, [&](size_t layer, Tensor) { order.push_back(layer); },
      example.context);
  BOOST_TEST(order == example.model.gradient_order());
  std::iota(all.begin(), all.end(), 0);
  BOOST_TEST(std::ranges::is_permutation(order, all));
}

BOOST_AUTO_TEST_CASE(TwoPassesInFlightDoNotDisturbEachOther) {
  Example example(small_cnn());
  const auto alone = example.gradients();
  nn::ModelContext other;
  example.context.begin(example.x);
  other.begin(test::normal(9, example.x.shape()));
  const size_t count = example.weights.size();
  example.model.forward(example.pass(), example.weights, 0, 2, example.context);
  example.model.forward(example.pass(), example.weights, 0, count, other);
  example.model.forward(example.pass(), example.weights, 2, count, example.context);
  example.model.backward(
      example.pass(), example.weights, other.take_output().clone(), [](size_t, Tensor) {}, other);
  nn::softmax_cross_entropy(example.pass(), example.context.take_output(), example.labels, example.dlogits);
  example.model.backward(
      example.pass(), example.weights, example.dlogits,
      [&](size_t layer, Tensor gradient) {
        BOOST_TEST(test::same_bits(gradient, alone[layer]), "layer " << layer);
      },
      example.context);
}

BOOST_AUTO_TEST_CASE(ARangeThatSkipsALayerIsABug) {
  Example example(small_mlp());
  example.context.begin(example.x);
  BOOST_CHECK_THROW(example.model.forward(example.pass(), example.weights, 1, 2, example.context),
                    CheckFailure);
}

BOOST_AUTO_TEST_CASE(SettingsOutOfRangeAreRefusedByName) {
  check_refused(with(small_mlp(), &ModelSpec::kind, "transformer"), "model.kind");
  check_refused(with(small_mlp(), &ModelSpec::hidden, {5, 0}), "model.hidden[1]");
  check_refused(with(small_mlp(), &ModelSpec::hidden, {1 << 20, 1 << 20}), "fc2");
  check_refused(with(small_mlp(), &ModelSpec::activation, "tanh"), "model.activation");
  check_refused(with(small_mlp(), &ModelSpec::dropout, 1), "model.dropout");
  check_refused(with(small_mlp(), &ModelSpec::dropout, std::nan("")), "model.dropout");
  check_refused(with(small_mlp(), &ModelSpec::classes, 0), "classes");
  check_refused(with(small_cnn(), &ModelSpec::channels, {3, -1}), "model.channels[1]");
  check_refused(with(small_cnn(), &ModelSpec::kernel, 4), "model.kernel");
  check_refused(with(small_resnet(), &ModelSpec::blocks, {1, 0}), "model.blocks[1]");
  check_refused(with(small_resnet(), &ModelSpec::block, "dense"), "model.block");
  check_refused(with(small_resnet(), &ModelSpec::stem, "deep"), "model.stem");
}

BOOST_AUTO_TEST_CASE(SettingsThatDoNotFitEachOtherOrTheDataAreRefused) {
  check_refused(with(small_cnn(), &ModelSpec::input, Shape{64}), "model.kind");
  check_refused(with(small_cnn(), &ModelSpec::channels, {}), "model.channels");
  check_refused(with(small_cnn(), &ModelSpec::channels, {1, 1, 1, 1}), "model.channels");
  check_refused(with(small_cnn(), &ModelSpec::layer_norm, true), "model.layer_norm");
  check_refused(with(small_mlp(), &ModelSpec::batch_norm, true), "model.batch_norm");
  check_refused(with(small_mlp(), &ModelSpec::channels, {4}), "model.channels");
  check_refused(with(small_resnet(), &ModelSpec::blocks, {1}), "model.blocks");
  check_refused(with(small_resnet(), &ModelSpec::hidden, {8}), "model.hidden");
}

BOOST_AUTO_TEST_SUITE_END()
