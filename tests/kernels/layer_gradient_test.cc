// Each layer's input and weight gradients against central differences in double precision.
#include <boost/test/unit_test.hpp>

#include <tests/support/finite_differences.h>
#include <troupe/kernels/nn/batch_norm.h>
#include <troupe/kernels/nn/causal_attention.h>
#include <troupe/kernels/nn/conv.h>
#include <troupe/kernels/nn/dropout.h>
#include <troupe/kernels/nn/embedding.h>
#include <troupe/kernels/nn/flatten.h>
#include <troupe/kernels/nn/layer_norm.h>
#include <troupe/kernels/nn/linear.h>
#include <troupe/kernels/nn/pool.h>
#include <troupe/kernels/nn/positions.h>
#include <troupe/kernels/nn/residual_add.h>
#include <troupe/kernels/nn/swiglu.h>

using namespace troupe;
using nn::Activation;
using test::finite_differences;
using test::gradient_difference;

namespace {

int64_t weight_count(const nn::Layer& layer) {
  int64_t count = 0;
  for (const ParamSpec& param : layer.params()) count += param.shape.count();
  return count;
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) sum += test::at(a, i) * test::at(b, i);
  return sum;
}

// A layer, a batch, and the loss sum(y dy) for a fixed dy, whose gradients are those of the layer.
struct Check {
  const nn::Layer& layer;
  Tensor x;
  Tensor skip{};
  Stream stream{};
  nn::Pass pass{stream, ops::cpu_ops(), true, 7};
  Tensor weights = test::normal(1, {weight_count(layer)});
  Tensor dy{};

  Tensor forward(nn::LayerContext& context) {
    context.skip = skip;
    return layer.forward(pass, weights, x, context);
  }

  double loss() {
    nn::LayerContext context;
    return dot(forward(context), dy);
  }

  // Elements of kind statistic have no derivative and are not looked at.
  Tensor weight_differences() {
    Tensor probed = finite_differences(weights, [&] { return loss(); });
    for (const ParamSpec& param : layer.params())
      for (int64_t i = 0; param.kind == ParamKind::statistic && i < param.shape.count(); ++i)
        probed.data<double>()[param.offset + i] = std::nan("");
    return probed;
  }

  void run() {
    nn::LayerContext context;
    dy = test::normal(2, forward(context).shape());
    const Tensor dx = layer.backward_input(pass, weights, dy.clone(), true, context);
    BOOST_TEST(gradient_difference(dx, finite_differences(x, [&] { return loss(); })) == "");
    if (skip) BOOST_TEST(gradient_difference(dx, finite_differences(skip, [&] { return loss(); })) == "");
    if (weights.count() > 0) check_weights(context);
  }

  void check_weights(const nn::LayerContext& context) {
    Tensor gradient = Tensor::empty(weights.shape(), DType::f64);
    layer.backward_weight(pass, weights, context, ops::Write::set, gradient);
    BOOST_TEST(gradient_difference(gradient, weight_differences()) == "");

    Tensor sum = gradient.clone();
    layer.backward_weight(pass, weights, context, ops::Write::add, sum);
    for (double& value : gradient.span<double>()) value *= 2;
    BOOST_TEST(test::difference(sum, gradient, 1e-12) == "");
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(layer_gradients)

BOOST_AUTO_TEST_CASE(Linear) {
  for (Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
    const nn::Linear layer(5, 4, activation);
    Check{layer, test::normal(3, {3, 5})}.run();
  }
}

// The ops that would be passes of their own are not there.
BOOST_AUTO_TEST_CASE(ABiasAndAGeluAreOnePassEachWay) {
  static int passes;
  passes = 0;
  const ops::Ops& cpu = ops::cpu_ops();
  ops::Ops counted = cpu;
  counted.linear = nullptr;
  counted.gelu = nullptr;
  counted.gelu_gradient = nullptr;
  counted.bias_gradient = nullptr;
  counted.bias_add = [](Stream& s, const Tensor& x, const Tensor& bias, ops::Epilogue epilogue, Tensor& y) {
    ++passes;
    ops::cpu_ops().bias_add(s, x, bias, epilogue, y);
  };
  counted.bias_gelu_gradient = [](Stream& s, const Tensor& x, const Tensor& bias, ops::Epilogue gelu, const Tensor& dy,
                                  ops::Write write, Tensor& dx, Tensor& dbias) {
    ++passes;
    ops::cpu_ops().bias_gelu_gradient(s, x, bias, gelu, dy, write, dx, dbias);
  };
  const nn::Linear layer(6, 5, Activation::gelu);
  Stream stream;
  const nn::Pass pass{stream, counted};
  const Tensor weights = test::normal(1, {weight_count(layer)}), x = test::normal(2, {4, 6});
  nn::LayerContext context;
  layer.forward(pass, weights, x, context);
  BOOST_TEST(passes == 1);
  layer.backward_input(pass, weights, test::normal(3, {4, 5}), true, context);
  Tensor gradient = Tensor::empty(weights.shape(), DType::f64);
  layer.backward_weight(pass, weights, context, ops::Write::set, gradient);
  BOOST_TEST(passes == 2);
}

BOOST_AUTO_TEST_CASE(ATestOfItGivesTheSameValues) {
  for (Activation activation : {Activation::gelu, Activation::gelu_tanh}) {
    const nn::Linear layer(6, 5, activation);
    Stream stream;
    const nn::Pass trained{stream, ops::cpu_ops()}, tested{stream, ops::cpu_ops(), false};
    const Tensor weights = test::as(DType::f32, test::normal(1, {weight_count(layer)})),
                 x = test::as(DType::f32, test::normal(2, {4, 6}));
    nn::LayerContext kept, dropped;
    BOOST_TEST(test::same_bits(layer.forward(trained, weights, x, kept), layer.forward(tested, weights, x, dropped)));
    BOOST_TEST(!dropped.z);
  }
}

BOOST_AUTO_TEST_CASE(LinearOfEveryPosition) {
  const nn::Linear layer(5, 4, nn::Linear::Options{.activation = Activation::gelu_tanh, .bias = false});
  Check{layer, test::normal(3, {2, 3, 5})}.run();
}

BOOST_AUTO_TEST_CASE(LayerNormOfEveryPosition) {
  const nn::LayerNorm layer(6);
  Check{layer, test::normal(3, {2, 3, 6})}.run();
}

BOOST_AUTO_TEST_CASE(CausalAttention) {
  for (double rotary_base : {0.0, 100.0}) {
    const nn::CausalAttention layer(2, rotary_base);
    Check{layer, test::normal(3, {2, 5, 24})}.run();
  }
}

BOOST_AUTO_TEST_CASE(SwiGlu) {
  const nn::SwiGlu layer;
  Check{layer, test::normal(3, {2, 3, 8})}.run();
}

BOOST_AUTO_TEST_CASE(Positions) {
  const nn::Positions layer(5, 4, 0.02);
  Check{layer, test::normal(3, {2, 5, 4})}.run();
  Check{layer, test::normal(3, {2, 3, 4})}.run();  // shorter than the context
}

BOOST_AUTO_TEST_CASE(Convolution) {
  for (Activation activation : {Activation::none, Activation::relu, Activation::gelu})
    for (int64_t stride : {1, 2}) {
      const nn::Conv2d layer(2, 3, 3, {.stride = stride, .padding = 1, .activation = activation});
      Check{layer, test::normal(3, {2, 2, 5, 4})}.run();
    }
}

BOOST_AUTO_TEST_CASE(ConvolutionWithoutBiasOrPadding) {
  const nn::Conv2d layer(1, 2, 2, {.bias = false});
  Check{layer, test::normal(3, {2, 1, 4, 5})}.run();
}

BOOST_AUTO_TEST_CASE(MaxPool) {
  const nn::MaxPool plain({.window = 2, .stride = 2});
  Check{plain, test::normal(3, {2, 3, 4, 5})}.run();
  const nn::MaxPool overlapping({.window = 3, .stride = 2, .padding = 1});
  Check{overlapping, test::normal(3, {2, 3, 5, 5})}.run();
}

BOOST_AUTO_TEST_CASE(AvgPool) {
  const nn::AvgPool layer({.window = 3, .stride = 2, .padding = 1});
  Check{layer, test::normal(3, {2, 3, 5, 4})}.run();
}

BOOST_AUTO_TEST_CASE(GlobalAvgPool) {
  const nn::GlobalAvgPool layer;
  Check{layer, test::normal(3, {2, 3, 4, 5})}.run();
}

BOOST_AUTO_TEST_CASE(Activations) {
  for (Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
    const nn::ActivationLayer layer(activation);
    Check{layer, test::normal(3, {4, 6})}.run();
  }
}

BOOST_AUTO_TEST_CASE(LayerNorm) {
  for (Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
    const nn::LayerNorm layer(6, activation);
    Check{layer, test::normal(3, {4, 6})}.run();
  }
}

BOOST_AUTO_TEST_CASE(BatchNorm) {
  for (Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
    const nn::BatchNorm layer(3, activation);
    Check{layer, test::normal(3, {4, 3, 2, 3})}.run();
  }
}

BOOST_AUTO_TEST_CASE(Dropout) {
  const nn::Dropout layer(0.4, 1);
  Check{layer, test::normal(3, {5, 8})}.run();
}

BOOST_AUTO_TEST_CASE(Flatten) {
  const nn::Flatten layer;
  Check{layer, test::normal(3, {2, 3, 2, 2})}.run();
}

BOOST_AUTO_TEST_CASE(ResidualAdd) {
  const nn::ResidualAdd layer(Activation::relu);
  Check{layer, test::normal(3, {2, 3, 2, 2}), test::normal(4, {2, 3, 2, 2})}.run();
}

BOOST_AUTO_TEST_CASE(Embedding) {
  const nn::Embedding layer(5, 3);
  const std::vector<int32_t> ids{2, 0, 2, 4, 1, 2};
  Check check{layer, Tensor::from(std::span<const int32_t>(ids), {2, 3})};
  nn::LayerContext context;
  check.dy = test::normal(2, check.forward(context).shape());
  BOOST_TEST((check.dy.shape() == Shape{2, 3, 3}));
  BOOST_TEST(!layer.backward_input(check.pass, check.weights, check.dy.clone(), true, context));
  check.check_weights(context);
}

BOOST_AUTO_TEST_CASE(NobodyPaysForAnInputGradientThatIsNotWanted) {
  const nn::Conv2d conv(2, 3, 3, {.padding = 1});
  const nn::Linear linear(5, 4);
  const nn::BatchNorm norm(2);
  Stream stream;
  const nn::Pass pass{stream, ops::cpu_ops()};
  const auto check = [&](const nn::Layer& layer, const Tensor& x) {
    const Tensor weights = test::normal(1, {weight_count(layer)});
    nn::LayerContext context;
    Tensor dy = layer.forward(pass, weights, x, context).clone();
    BOOST_TEST(!layer.backward_input(pass, weights, std::move(dy), false, context));
  };
  check(conv, test::normal(3, {1, 2, 4, 4}));
  check(linear, test::normal(3, {2, 5}));
  check(norm, test::normal(3, {2, 2, 3, 3}));
}

BOOST_AUTO_TEST_SUITE_END()
