#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include <tests/support/late_device.h>
#include <tests/support/random_samples.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(gradient_measure)

namespace {

// Batch norm has statistics between its weights; without dropout, so that steps are captured.
struct Sources {
  explicit Sources(uint64_t seed, bool graphs = false)
      : backend(std::make_shared<test::LateBackend>(seed)),
        cpu(model, data, data),
        late(nn::ModelSource::make(model, data, data, backend, {}, DType::f32, {.graphs = graphs}).value()) {}

  nn::ModelSpec spec{
      .kind = "cnn", .input = {1, 8, 8}, .classes = 3, .hidden = {8}, .channels = {4}, .batch_norm = true};
  std::shared_ptr<const nn::Model> model = std::make_shared<nn::Model>(nn::make_model(spec).value());
  std::shared_ptr<const test::RandomSamples> data = std::make_shared<test::RandomSamples>(spec.input, 3, 64);
  std::shared_ptr<test::LateBackend> backend;
  nn::ModelSource cpu;
  std::unique_ptr<nn::ModelSource> late;

  std::vector<Tensor> weights() {
    std::vector<Tensor> all;
    for (size_t layer = 0; layer < cpu.layers().size(); ++layer) {
      all.push_back(Tensor::empty({cpu.layers()[layer].count}));
      cpu.initialize(layer, 1, all.back().span<float>());
    }
    return all;
  }
  size_t bytes_to_host() const {
    size_t bytes = 0;
    for (const auto* stream : backend->all_streams()) bytes += stream->bytes_to_host;
    return bytes;
  }
};

using Measures = std::map<size_t, GradientMeasure>;

std::vector<uint32_t> first_samples() {
  std::vector<uint32_t> samples(24);
  std::iota(samples.begin(), samples.end(), 0u);
  return samples;
}

/// Element by element, without any op.
GradientMeasure expected(const LayerSpec& layer, const Tensor& gradient, bool norm) {
  GradientMeasure all;
  for (const ParamSpec& param : layer.params)
    for (int64_t i = param.offset; i < param.offset + param.shape.count(); ++i) {
      const double x = gradient.data<float>()[i];
      if (norm && param.kind != ParamKind::statistic) all.sum_of_squares += x * x;
      all.finite = all.finite && std::isfinite(x);
    }
  return all;
}

Measures in_host_memory(Sources& sources, const std::vector<Tensor>& weights, bool norm) {
  Measures all;
  const auto samples = first_samples();
  sources.cpu.backward({samples, 1}, weights, [&](size_t layer, const Tensor& gradient) {
    BOOST_TEST(!sources.cpu.measured());
    all[layer] = expected(sources.cpu.layers()[layer], gradient, norm);
  });
  return all;
}

Measures on_device(Sources& sources, const std::vector<Tensor>& weights) {
  Measures all;
  const auto samples = first_samples();
  sources.late->backward({samples, 1}, weights, [&](size_t layer, const Tensor&) {
    BOOST_TEST_REQUIRE(sources.late->measured().has_value());
    all[layer] = *sources.late->measured();
  });
  return all;
}

void check_equal(const Measures& got, const Measures& expected) {
  BOOST_TEST_REQUIRE(got.size() == expected.size());
  for (const auto& [layer, measure] : expected) {
    BOOST_TEST(got.at(layer).sum_of_squares == measure.sum_of_squares, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(got.at(layer).finite == measure.finite, "layer " << layer);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(AGradientIsMeasuredOnItsDeviceAsInHostMemoryWhetherItStaysOrGoes) {
  for (const bool norm : {false, true})
    for (const bool stays : {false, true}) {
      Sources sources(1 + norm);
      const auto weights = sources.weights();
      std::vector<size_t> all(weights.size());
      std::iota(all.begin(), all.end(), size_t{0});
      sources.late->measure_gradients(norm);
      if (stays) sources.late->leave_on_device(all);
      check_equal(on_device(sources, weights), in_host_memory(sources, weights, norm));
    }
}

BOOST_AUTO_TEST_CASE(StepsThatAreReplayedAreMeasuredToo) {
  Sources sources(3, true);
  const auto weights = sources.weights();
  const Measures host = in_host_memory(sources, weights, true);
  sources.late->measure_gradients(true);
  for (int step = 0; step < 6; ++step) check_equal(on_device(sources, weights), host);
  BOOST_TEST(sources.late->graphs().replays() == 3);
}

BOOST_AUTO_TEST_CASE(NothingButTheNumbersOfAGradientThatStaysComesToHostMemory) {
  Sources sources(4);
  const auto weights = sources.weights();
  std::vector<size_t> all(weights.size());
  std::iota(all.begin(), all.end(), size_t{0});
  sources.late->leave_on_device(all);
  const auto samples = first_samples();
  const auto step = [&] {
    const size_t before = sources.bytes_to_host();
    sources.late->backward({samples, 1}, weights, [](size_t, const Tensor&) {});
    return sources.bytes_to_host() - before;
  };
  const size_t unmeasured = step();
  sources.late->measure_gradients(true);
  size_t ranges = 0;
  for (const LayerSpec& layer : sources.late->layers()) ranges += ranges_to_measure(layer, layer.count, true).size();
  BOOST_TEST(step() - unmeasured == ranges * sizeof(double));
}

BOOST_AUTO_TEST_CASE(ANanIsFoundWithAndWithoutTheNorm) {
  for (const bool norm : {false, true}) {
    Sources sources(5);
    auto weights = sources.weights();
    weights.back().data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    sources.late->measure_gradients(norm);
    const Measures got = on_device(sources, weights);
    BOOST_TEST(std::ranges::any_of(got, [](const auto& one) { return !one.second.finite; }));
  }
}

BOOST_AUTO_TEST_CASE(NeighboursOfOneKindAreOneRange) {
  const LayerSpec layer{"norm",
                        12,
                        {{"w", {4}, 0},
                         {"b", {2}, 4, ParamKind::bias},
                         {"m", {3}, 6, ParamKind::statistic},
                         {"v", {3}, 9, ParamKind::statistic}}};
  const auto ranges = ranges_to_measure(layer, 12, true);
  BOOST_TEST_REQUIRE(ranges.size() == 2);
  BOOST_TEST((ranges[0].end == 6 && ranges[0].in_norm && ranges[1].begin == 6 && ranges[1].end == 12));
  BOOST_TEST(!ranges[1].in_norm);
  BOOST_TEST(ranges_to_measure(layer, 12, false).size() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
