#include <boost/test/unit_test.hpp>

#include <cmath>
#include <map>

#include <tests/support/late_device.h>
#include <tests/support/random_samples.h>
#include <troupe/actors/nan_source.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(nan_source)

namespace {

struct Seen {
  bool has_nan = false, finite = true;
};

/// The first step's gradients, of a source on a late device whose second layer is to have a NaN.
std::map<size_t, Seen> first_step(bool stay) {
  const nn::ModelSpec spec{.kind = "mlp", .input = {6}, .classes = 3, .hidden = {5, 4}};
  const auto model = std::make_shared<const nn::Model>(nn::make_model(spec).value());
  const auto data = std::make_shared<const test::RandomSamples>(spec.input, 3);
  auto late = nn::ModelSource::make(model, data, data, std::make_shared<test::LateBackend>(1), {}).value();
  const auto source = make_nan_source(std::move(late), 0, "fc2");
  std::vector<Tensor> weights;
  std::vector<size_t> layers;
  for (size_t layer = 0; layer < source->layers().size(); ++layer) {
    weights.push_back(Tensor::empty({source->layers()[layer].count}));
    source->initialize(layer, 1, weights.back().span<float>());
    layers.push_back(layer);
  }
  auto& measuring = dynamic_cast<MeasuringSource&>(*source);
  measuring.measure_gradients(true);
  if (stay) source->leave_on_device(layers);
  std::map<size_t, Seen> seen;
  const std::vector<uint32_t> samples{0, 1, 2, 3};
  source->backward({samples, 1}, weights, [&](size_t layer, const Tensor& gradient) {
    seen[layer] = {std::isnan(gradient.data<float>()[0]), measuring.measured().value().finite};
  });
  return seen;
}

}  // namespace

BOOST_AUTO_TEST_CASE(AGradientInHostMemoryBeginsWithANanAndIsSaidTo) {
  for (const auto& [layer, seen] : first_step(false)) {
    BOOST_TEST(seen.has_nan == (layer == 1), layer);
    BOOST_TEST(seen.finite == (layer != 1), layer);
  }
}

// The program cannot write there.
BOOST_AUTO_TEST_CASE(AGradientOnADeviceIsSaidToHaveANanAndIsNotTouched) {
  for (const auto& [layer, seen] : first_step(true)) {
    BOOST_TEST(!seen.has_nan, layer);
    BOOST_TEST(seen.finite == (layer != 1), layer);
  }
}

BOOST_AUTO_TEST_SUITE_END()
