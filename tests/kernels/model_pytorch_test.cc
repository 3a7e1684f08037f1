// A whole model against values that PyTorch computed (tools/record_pytorch), in double and in single precision.
#include <boost/test/unit_test.hpp>

#include <tests/support/fixture.h>
#include <tests/support/tensors.h>
#include <troupe/kernels/nn/make_model.h>

using namespace troupe;
using test::difference;

namespace {

// A layer's flat vector of the recorded tensors NAME + `suffix`; 0 where nothing is recorded (running statistics).
Tensor flat(const LayerSpec& layer, const test::FixtureCase& example, const std::string& suffix, DType dtype) {
  Tensor values = Tensor::zeros({layer.count}, DType::f64);
  for (const ParamSpec& param : layer.params)
    if (param.kind != ParamKind::statistic)
      std::ranges::copy(example.tensor(param.name + suffix).span<double>(), values.data<double>() + param.offset);
  return test::as(dtype, values);
}

Tensor without_statistics(const LayerSpec& layer, const Tensor& gradient) {
  Tensor values = test::as(DType::f64, gradient);
  for (const ParamSpec& param : layer.params)
    if (param.kind == ParamKind::statistic) std::fill_n(values.data<double>() + param.offset, param.shape.count(), 0.0);
  return values;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(models_against_pytorch)

BOOST_AUTO_TEST_CASE(AResnetOfBottlenecksBehindALargeStemAgrees) {
  const auto cases = test::load_fixture("pytorch/models.txt");
  const test::FixtureCase& example = cases.at("resnet_of_bottlenecks");
  const nn::Model model = nn::make_model({.kind = "resnet",
                                          .input = {1, 15, 13},
                                          .classes = 3,
                                          .channels = {2, 3},
                                          .blocks = {1, 1},
                                          .block = "bottleneck",
                                          .stem = "large"})
                              .value();
  for (const auto& [dtype, tolerance] : {std::pair(DType::f64, 1e-7), std::pair(DType::f32, 1e-4)}) {
    std::vector<Tensor> weights;
    for (const LayerSpec& layer : model.layers()) weights.push_back(flat(layer, example, "", dtype));
    Stream stream;
    const nn::Pass pass{stream, ops::cpu_ops()};
    nn::ModelContext context;
    context.begin(test::as(dtype, example.tensor("input")));
    model.forward(pass, weights, 0, weights.size(), context);
    BOOST_TEST(difference(context.take_output(), example.tensor("output"), tolerance) == "");
    const auto check = [&, tolerance = tolerance](size_t index, const Tensor& gradient) {
      const LayerSpec& layer = model.layers()[index];
      const Tensor expected = flat(layer, example, "_gradient", DType::f64);
      BOOST_TEST(difference(without_statistics(layer, gradient), expected, tolerance) == "", layer.name);
    };
    model.backward(pass, weights, test::as(dtype, example.tensor("output_gradient")), check, context);
  }
}

BOOST_AUTO_TEST_SUITE_END()
