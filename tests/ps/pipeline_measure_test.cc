#include <boost/test/unit_test.hpp>

#include <troupe/kernels/nn/make_model.h>
#include <troupe/ps/data/load_dataset.h>
#include <troupe/ps/pipeline/measure_layers.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(pipeline_measure)

namespace {

LayerProfile measured(const nn::ModelSpec& spec, const MeasureOptions& options) {
  auto made = nn::make_model(spec);
  BOOST_REQUIRE(made);
  DataOptions data;
  data.format = "synthetic", data.samples = 64, data.features = spec.input.count(), data.classes = spec.classes;
  const auto sets = load_dataset(data);
  BOOST_REQUIRE(sets);
  double now = 0;
  return measure_layers(std::make_shared<const nn::Model>(std::move(*made)), sets->train, options,
                        [&] { return now += 0.5; });
}

}  // namespace

BOOST_AUTO_TEST_CASE(EveryLayerHasItsTimesAndSizes) {
  const LayerProfile profile =
      measured({.kind = "mlp", .input = {20}, .classes = 3, .hidden = {7, 5}}, {.micro_batch = 4, .seconds = 0});
  BOOST_REQUIRE(profile.layers.size() == 3u);
  BOOST_TEST(profile.micro_batch == 4);
  for (const LayerCost& layer : profile.layers) {
    BOOST_TEST(layer.layers == 1u);
    BOOST_TEST(layer.forward == 0.5);  // one tick of the clock
    BOOST_TEST(layer.backward_input == 0.5);
    BOOST_TEST(layer.backward_weight == 0.5);
    BOOST_TEST(layer.kept_bytes > 0);
    BOOST_TEST(layer.kept_input_bytes > 0);
  }
  BOOST_TEST(profile.layers[0].name == "fc1");
  BOOST_TEST(profile.layers[0].output_bytes == 4.0 * 7 * 4);
  BOOST_TEST(profile.layers[0].parameter_bytes == 4.0 * (20 * 7 + 7));
  BOOST_TEST(profile.layers[1].output_bytes == 4.0 * 5 * 4);
}

BOOST_AUTO_TEST_CASE(AMicroBatchHasNoMoreSamplesThanThereAre) {
  const LayerProfile profile =
      measured({.kind = "mlp", .input = {20}, .classes = 3}, {.micro_batch = 1000, .seconds = 0});
  BOOST_TEST(profile.micro_batch <= 64);
}

BOOST_AUTO_TEST_SUITE_END()
