#include <boost/test/unit_test.hpp>

#include <numeric>

#include <tests/support/gpu.h>
#include <tests/support/late_device.h>
#include <tests/support/random_samples.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>

// Steps that are captured and replayed are the steps that they were captured of, bit for bit. A late device records
// what it is given with addresses and numbers, as a GPU does, so that whatever changes without another capture shows.

using namespace troupe;

namespace {

nn::ModelSpec cnn(double dropout = 0) {
  return {.kind = "cnn",
          .input = {1, 8, 8},
          .classes = 3,
          .hidden = {8},
          .channels = {4, 6},
          .dropout = dropout,
          .batch_norm = true};
}

struct Sources {
  explicit Sources(uint64_t seed, const nn::ModelSpec& spec = cnn(), DType storage = DType::f32)
      : model(std::make_shared<nn::Model>(std::move(*nn::make_model(spec)))),
        data(std::make_shared<test::RandomSamples>(spec.input, 3, 300)),
        cpu(model, data, data, 1, storage),
        backend(std::make_shared<test::LateBackend>(seed)),
        late(std::move(*nn::ModelSource::make(model, data, data, backend, {}, storage, launches()))) {}

  nn::LaunchOptions launches() {
    return {true, [this](const std::string& text) { said += text + "; "; }};
  }

  std::string said;
  std::shared_ptr<const nn::Model> model;
  std::shared_ptr<const test::RandomSamples> data;
  nn::ModelSource cpu;
  std::shared_ptr<test::LateBackend> backend;
  std::unique_ptr<nn::ModelSource> late;
};

/// Everything that gradient descent computed, as bytes: a batch of `batch(step)` samples a step.
template <class Size>
std::vector<float> train(nn::ModelSource& source, int steps, const Size& batch_size, double loss_scale = 1) {
  std::vector<Tensor> weights;
  for (size_t layer = 0; layer < source.layers().size(); ++layer) {
    weights.push_back(Tensor::empty({source.layers()[layer].count}));
    source.initialize(layer, 1, weights.back().span<float>());
  }
  std::vector<float> all;
  for (int step = 0; step < steps; ++step) {
    std::vector<uint32_t> samples(static_cast<size_t>(batch_size(step)));
    std::iota(samples.begin(), samples.end(), static_cast<uint32_t>(step * 7 % 200));
    const Batch batch{samples, static_cast<uint64_t>(step), loss_scale};
    std::vector<Tensor> next(weights.size());
    if (step % 2 == 0) source.prepare(batch);
    if (step % 3 != 0) source.forward(batch, weights, 0, 2);  // or all of it in `backward`
    const StepStats stats = source.backward(batch, weights, [&](size_t layer, const Tensor& gradient) {
      BOOST_REQUIRE(!next[layer]);  // once
      next[layer] = weights[layer].clone();
      for (int64_t i = 0; i < gradient.count(); ++i) next[layer].data<float>()[i] -= 0.01f * gradient.data<float>()[i];
    });
    all.push_back(static_cast<float>(stats.loss_sum));
    weights = std::move(next);
    if (step % 4 == 3) all.push_back(static_cast<float>(source.evaluate(samples, weights).loss_sum));
  }
  for (const Tensor& w : weights) all.insert(all.end(), w.span<float>().begin(), w.span<float>().end());
  return all;
}

const auto kWhole = [](int) { return 24; };

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(captured_step)

BOOST_AUTO_TEST_CASE(ReplayedStepsEqualTheCpusBitForBit) {
  for (const DType storage : {DType::f32, DType::bf16})
    for (uint64_t seed : {1, 2, 3}) {
      Sources sources(seed, cnn(), storage);
      const auto expected = train(sources.cpu, 10, kWhole), got = train(*sources.late, 10, kWhole);
      BOOST_TEST((got == expected), "seed " << seed);
      BOOST_TEST(sources.late->graphs().replays() == 7);
    }
}

BOOST_AUTO_TEST_CASE(AReplayedStepIsAGraphForTheLossAndOneALayer) {
  Sources sources(1);
  train(*sources.late, 4, kWhole);
  const LaunchCounts before = sources.late->launches();
  BOOST_TEST(before.graphs == 2 * (1 + sources.model->layers().size()));  // the captured one and a replayed one
  BOOST_TEST(before.kernels > 2 * 20u);
  BOOST_TEST(contains(sources.said, "a step of 24 samples is "));
  BOOST_TEST(contains(sources.said, cat("is ", 1 + sources.model->layers().size(), " graphs from now on")));
}

BOOST_AUTO_TEST_CASE(BatchesOfOtherSizesAreRunAndDisturbNothing) {
  const auto size = [](int step) { return step % 4 == 3 ? 5 : 24; };
  Sources sources(2);
  const auto expected = train(sources.cpu, 12, size), got = train(*sources.late, 12, size);
  BOOST_TEST((got == expected));
  BOOST_TEST(sources.late->graphs().replays() == 6);
}

// The loss scale is a number that kernels were captured with.
BOOST_AUTO_TEST_CASE(AnotherLossScaleIsAnotherStep) {
  Sources sources(3, cnn(), DType::f16);
  for (const double scale : {1.0, 256.0, 1.0})
    BOOST_TEST((train(*sources.late, 5, kWhole, scale) == train(sources.cpu, 5, kWhole, scale)), "scale " << scale);
  BOOST_TEST(sources.late->graphs().captures() == 2);
}

// Of another size, for a layer whose weights the device holds where it held them.
BOOST_AUTO_TEST_CASE(MemoryThatOpsWorkInMayGrowBetweenSteps) {
  Sources sources(4);
  BOOST_TEST((train(*sources.late, 4, kWhole) == train(sources.cpu, 4, kWhole)));
  for (auto* stream : sources.backend->all_streams()) stream->scratch(1 << 20);
  BOOST_TEST((train(*sources.late, 6, kWhole) == train(sources.cpu, 6, kWhole)));
  BOOST_TEST(sources.late->graphs().captures() == 2);
}

BOOST_AUTO_TEST_CASE(ModelsThatDrawNumbersAreNotCapturedAndSaySo) {
  Sources sources(5, cnn(0.2));
  BOOST_TEST((train(*sources.late, 6, kWhole) == train(sources.cpu, 6, kWhole)));
  BOOST_TEST(sources.late->launches().graphs == 0u);
  BOOST_TEST(contains(sources.said, "steps are not captured: the model has dropout"));
}

BOOST_AUTO_TEST_CASE(ABackendWithoutGraphsRunsStepsAndSaysWhy) {
  Sources sources(6);
  sources.backend->refuses_captures = "this driver is too old for graphs";
  BOOST_TEST((train(*sources.late, 6, kWhole) == train(sources.cpu, 6, kWhole)));
  BOOST_TEST(contains(sources.said, "steps cannot be captured: this driver is too old for graphs"));
}

// In the loss, between two gradients, at the last one: what was handed out is not handed out again.
BOOST_AUTO_TEST_CASE(ACaptureThatFailsOnTheWayIsRunToItsEnd) {
  for (int fails_at : {1, 2, 3, 5}) {
    Sources sources(7);
    sources.backend->captures_that_work = fails_at;
    BOOST_TEST((train(*sources.late, 6, kWhole) == train(sources.cpu, 6, kWhole)), "section " << fails_at);
    BOOST_TEST(contains(sources.said, "steps cannot be captured: an op that waits was captured"));
  }
}

BOOST_AUTO_TEST_CASE(AnErrorOfWhoeverTakesGradientsStaysOne) {
  Sources sources(8);
  train(*sources.late, 2, kWhole);
  std::vector<Tensor> weights;
  for (const LayerSpec& layer : sources.late->layers()) weights.push_back(Tensor::zeros({layer.count}));
  const std::vector<uint32_t> samples(24);
  const auto step = [&] {
    sources.late->prepare({samples, 1});
    sources.late->backward({samples, 1}, weights, [](size_t, const Tensor&) { throw std::runtime_error("no room"); });
  };
  for (int i = 0; i < 3; ++i) BOOST_CHECK_THROW(step(), std::runtime_error);
  BOOST_TEST(sources.late->graphs().why_not() == "");
}

BOOST_AUTO_TEST_CASE(OnARealDeviceReplayedStepsEqualRunOnes, TROUPE_GPU_TEST(1)) {
  const auto model = std::make_shared<const nn::Model>(std::move(*nn::make_model(cnn())));
  const auto data = std::make_shared<const test::RandomSamples>(cnn().input, 3, 300);
  const auto backend = load_backend(DeviceKind::cuda).value();
  std::string said;
  const nn::LaunchOptions launches{true, [&](const std::string& text) { said += text + "; "; }};
  const auto run = std::move(*nn::ModelSource::make(model, data, data, backend, {}));
  const auto replayed = std::move(*nn::ModelSource::make(model, data, data, backend, {}, DType::f32, launches));
  BOOST_TEST((train(*replayed, 10, kWhole) == train(*run, 10, kWhole)), said);
  BOOST_TEST(replayed->graphs().replays() == 7, said);
}

BOOST_AUTO_TEST_SUITE_END()
