// Layers against values that PyTorch computed (tools/record_pytorch), in double and in single precision.
#include <boost/test/unit_test.hpp>

#include <tests/support/fixture.h>
#include <tests/support/tensors.h>
#include <troupe/kernels/nn/batch_norm.h>
#include <troupe/kernels/nn/causal_attention.h>
#include <troupe/kernels/nn/conv.h>
#include <troupe/kernels/nn/embedding.h>
#include <troupe/kernels/nn/layer_norm.h>
#include <troupe/kernels/nn/linear.h>
#include <troupe/kernels/nn/loss.h>
#include <troupe/kernels/nn/pool.h>
#include <troupe/kernels/nn/positions.h>
#include <troupe/kernels/nn/swiglu.h>

using namespace troupe;
using nn::Activation;
using test::difference;

namespace {

const test::FixtureCase& recorded(const std::string& name) {
  static const auto cases = test::load_fixture("pytorch/layers.txt");
  TROUPE_CHECK(cases.count(name), "no case ", name);
  return cases.at(name);
}

// The files have nine digits.
double tolerance_of(DType dtype) {
  return dtype == DType::f64 ? 1e-8 : 2e-6;
}

// The named tensors one after the other, as a layer's flat vector.
Tensor flat(const test::FixtureCase& example, const std::vector<std::string>& names, DType dtype) {
  std::vector<double> values;
  for (const std::string& name : names) {
    const auto part = example.tensor(name).span<double>();
    values.insert(values.end(), part.begin(), part.end());
  }
  return test::as(dtype,
                  Tensor::from(std::span<const double>(values), {static_cast<int64_t>(values.size())}));
}

struct Outcome {
  Tensor y, dx, gradient;
};

Outcome run(const nn::Layer& layer, const Tensor& weights, const Tensor& x, const Tensor& dy) {
  Stream stream;
  const nn::Pass pass{stream, ops::cpu_ops()};
  nn::LayerContext context;
  Outcome outcome;
  outcome.y = layer.forward(pass, weights, x, context).clone();
  outcome.dx = layer.backward_input(pass, weights, dy.clone(), true, context);
  outcome.gradient = Tensor::empty(weights.shape(), weights.dtype());
  if (weights.count() > 0) layer.backward_weight(pass, weights, context, ops::Write::set, outcome.gradient);
  return outcome;
}

// Forward and backward of `layer` with the recorded parameters `names`.
void check(const nn::Layer& layer, const test::FixtureCase& example, const std::vector<std::string>& names) {
  std::vector<std::string> gradients;
  for (const std::string& name : names) gradients.push_back(name + "_gradient");
  for (DType dtype : {DType::f64, DType::f32}) {
    const Outcome outcome = run(layer, flat(example, names, dtype), test::as(dtype, example.tensor("input")),
                                test::as(dtype, example.tensor("output_gradient")));
    BOOST_TEST(difference(outcome.y, example.tensor("output"), tolerance_of(dtype)) == "");
    BOOST_TEST(difference(outcome.dx, example.tensor("input_gradient"), tolerance_of(dtype)) == "");
    BOOST_TEST(difference(outcome.gradient, flat(example, gradients, DType::f64), tolerance_of(dtype)) == "");
  }
}

nn::Conv2d conv_of(const test::FixtureCase& example) {
  const Shape& weight = example.tensor("weight").shape();
  return {
      weight[1],
      weight[0],
      weight[2],
      {.stride = std::stoll(example.setting("stride")), .padding = std::stoll(example.setting("padding"))}};
}

void check_embedding(const test::FixtureCase& example) {
  for (DType dtype : {DType::f64, DType::f32}) {
    const Outcome outcome = run(nn::Embedding(5, 3), flat(example, {"weight"}, dtype),
                                test::as(DType::i32, example.tensor("indices")),
                                test::as(dtype, example.tensor("output_gradient")));
    BOOST_TEST(difference(outcome.y, example.tensor("output"), tolerance_of(dtype)) == "");
    BOOST_TEST(difference(outcome.gradient, example.tensor("weight_gradient"), tolerance_of(dtype)) == "");
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(layers_against_pytorch)

BOOST_AUTO_TEST_CASE(LinearAgrees) {
  check(nn::Linear(5, 4), recorded("linear"), {"weight", "bias"});
}

BOOST_AUTO_TEST_CASE(ConvolutionAgrees) {
  check(conv_of(recorded("conv2d")), recorded("conv2d"), {"weight", "bias"});
  check(conv_of(recorded("conv2d_stride_2")), recorded("conv2d_stride_2"), {"weight", "bias"});
}

BOOST_AUTO_TEST_CASE(MaxPoolAgrees) {
  check(nn::MaxPool({.window = 2, .stride = 2}), recorded("max_pool"), {});
}

BOOST_AUTO_TEST_CASE(GeluAgrees) {
  check(nn::ActivationLayer(Activation::gelu), recorded("gelu"), {});
}

BOOST_AUTO_TEST_CASE(LayerNormAgrees) {
  const auto& example = recorded("layer_norm");
  BOOST_TEST(example.number("epsilon") == nn::LayerNorm::kEpsilon);
  check(nn::LayerNorm(6), example, {"weight", "bias"});
}

BOOST_AUTO_TEST_CASE(BatchNormAgreesAndSoDoItsStatisticsAfterAStep) {
  const auto& example = recorded("batch_norm");
  BOOST_TEST(example.number("epsilon") == nn::BatchNorm::kEpsilon);
  BOOST_TEST(example.number("momentum") == nn::BatchNorm::kMomentum);
  for (DType dtype : {DType::f64, DType::f32}) {
    const Tensor x = test::as(dtype, example.tensor("input"));
    const Tensor weights = flat(example, {"weight", "bias", "running_mean", "running_variance"}, dtype);
    const Outcome outcome =
        run(nn::BatchNorm(3), weights, x, test::as(dtype, example.tensor("output_gradient")));
    const double tolerance = tolerance_of(dtype);
    BOOST_TEST(difference(outcome.y, example.tensor("output"), tolerance) == "");
    BOOST_TEST(difference(outcome.dx, example.tensor("input_gradient"), tolerance) == "");
    BOOST_TEST(difference(outcome.gradient.view(0, {6}),
                          flat(example, {"weight_gradient", "bias_gradient"}, DType::f64), tolerance) == "");
    Tensor statistics = test::as(DType::f64, weights.view(6, {6}));
    for (int64_t i = 0; i < 6; ++i)
      statistics.data<double>()[i] -= test::at(outcome.gradient, 6 + i) / static_cast<double>(x.shape()[0]);
    BOOST_TEST(difference(statistics, flat(example, {"new_running_mean", "new_running_variance"}, DType::f64),
                          tolerance) == "");
  }
}

BOOST_AUTO_TEST_CASE(AttentionAgreesWithAndWithoutRotaryPositions) {
  for (const char* name : {"attention", "rotary_attention"}) {
    const auto& example = recorded(name);
    check(nn::CausalAttention(std::stoll(example.setting("heads")), example.number("rotary_base")), example, {});
  }
}

BOOST_AUTO_TEST_CASE(SwiGluAndTheOtherGeluAgree) {
  check(nn::SwiGlu(), recorded("swiglu"), {});
  check(nn::ActivationLayer(Activation::gelu_tanh), recorded("gelu_tanh"), {});
}

BOOST_AUTO_TEST_CASE(PositionsAgreeInASequenceShorterThanTheContext) {
  check(nn::Positions(5, 4, 0.02), recorded("positions"), {"weight"});
}

BOOST_AUTO_TEST_CASE(EmbeddingAgrees) {
  for (const char* name : {"embedding", "token_embedding"}) check_embedding(recorded(name));
}

BOOST_AUTO_TEST_CASE(SoftmaxCrossEntropyAgrees) {
  const auto& example = recorded("softmax_cross_entropy");
  for (DType dtype : {DType::f64, DType::f32}) {
    Stream stream;
    Tensor dlogits;
    const StepStats stats =
        nn::softmax_cross_entropy({stream, ops::cpu_ops()}, test::as(dtype, example.tensor("input")),
                                  test::as(DType::i32, example.tensor("labels")), dlogits);
    BOOST_TEST(std::abs(stats.loss_sum - test::at(example.tensor("output"), 0)) < 10 * tolerance_of(dtype));
    BOOST_TEST(stats.samples == 4);
    BOOST_TEST(difference(dlogits, example.tensor("input_gradient"), tolerance_of(dtype)) == "");
  }
}

BOOST_AUTO_TEST_SUITE_END()
