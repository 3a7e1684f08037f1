#include <boost/test/unit_test.hpp>

#include <numeric>

#include <tests/support/late_device.h>
#include <tests/support/random_samples.h>
#include <tests/support/tensors.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>

using namespace troupe;

namespace {

nn::ModelSpec cnn_spec() {
  return {.kind = "cnn",
          .input = {1, 8, 8},
          .classes = 3,
          .hidden = {8},
          .channels = {4, 6},
          .dropout = 0.2,
          .batch_norm = true};
}

struct Sources {
  explicit Sources(uint64_t seed)
      : spec(cnn_spec()),
        model(std::make_shared<nn::Model>(std::move(*nn::make_model(spec)))),
        data(std::make_shared<test::RandomSamples>(spec.input, 3, 300)),
        cpu(model, data, data),
        backend(std::make_shared<test::LateBackend>(seed)),
        late(std::move(*nn::ModelSource::make(model, data, data, backend, {}))) {}

  nn::ModelSpec spec;
  std::shared_ptr<const nn::Model> model;
  std::shared_ptr<const test::RandomSamples> data;
  nn::ModelSource cpu;
  std::shared_ptr<test::LateBackend> backend;
  std::unique_ptr<nn::ModelSource> late;
};

std::vector<Tensor> first_weights(GradientSource& source) {
  std::vector<Tensor> weights;
  for (size_t layer = 0; layer < source.layers().size(); ++layer) {
    weights.push_back(Tensor::empty({source.layers()[layer].count}));
    source.initialize(layer, 1, weights.back().span<float>());
  }
  return weights;
}

struct Trained {
  std::vector<Tensor> weights;
  std::vector<double> losses;
  std::vector<size_t> order;  ///< in which gradients came, of the last step
};

// Plain gradient descent, with weights that arrive in two parts, and a test now and then.
Trained train(GradientSource& source, int steps) {
  Trained out{first_weights(source), {}, {}};
  const size_t layers = source.layers().size();
  std::vector<uint32_t> samples(24), tests(60);
  std::iota(tests.begin(), tests.end(), 0u);
  for (int step = 0; step < steps; ++step) {
    std::iota(samples.begin(), samples.end(), static_cast<uint32_t>(step * 24 % 240));
    const Batch batch{samples, static_cast<uint64_t>(step)};
    std::vector<Tensor> next(layers);
    out.order.clear();
    if (step % 2 == 0) source.prepare(batch);
    source.forward(batch, out.weights, 0, 2);
    source.forward(batch, out.weights, 2, layers);
    const StepStats stats = source.backward(batch, out.weights, [&](size_t layer, Tensor gradient) {
      BOOST_TEST_REQUIRE((gradient.device() == Device{}));
      out.order.push_back(layer);
      next[layer] = out.weights[layer].clone();
      for (int64_t i = 0; i < gradient.count(); ++i) next[layer].data<float>()[i] -= 0.01f * gradient.data<float>()[i];
    });
    out.losses.push_back(stats.loss_sum);
    out.weights = std::move(next);
    if (step % 3 == 2) out.losses.push_back(source.evaluate(tests, out.weights).loss_sum);
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(courier)

BOOST_AUTO_TEST_CASE(TrainingOnALateDeviceEqualsTheCpuBitForBit) {
  for (uint64_t seed : {1, 2, 3}) {
    Sources sources(seed);
    const Trained expected = train(sources.cpu, 6), got = train(*sources.late, 6);
    BOOST_TEST(got.losses == expected.losses, boost::test_tools::per_element());
    BOOST_TEST(got.order == expected.order, boost::test_tools::per_element());
    for (size_t layer = 0; layer < expected.weights.size(); ++layer)
      BOOST_TEST(
          std::memcmp(got.weights[layer].raw(), expected.weights[layer].raw(), expected.weights[layer].bytes()) == 0,
          "seed " << seed << ", layer " << layer);
  }
}

BOOST_AUTO_TEST_CASE(WeightsThatHaveNotChangedAreNotSentAgain) {
  Sources sources(4);
  const std::vector<Tensor> weights = first_weights(sources.cpu);
  std::unique_ptr<Stream> compute = std::move(*sources.backend->make_stream({}));
  nn::Courier courier(sources.backend, *compute, std::move(*sources.backend->make_stream({})), sources.model->layers());
  courier.begin_pass();
  const std::span<const Tensor> sent = courier.weights(weights, 0, weights.size());
  BOOST_TEST_REQUIRE(compute->wait().has_value());
  std::vector<Tensor> on_device(sent.begin(), sent.end());
  on_device[0].data<float>()[0] = 1234.f;  // would be written over by another copy
  courier.begin_pass();
  courier.weights(weights, 0, weights.size());
  BOOST_TEST_REQUIRE(compute->wait().has_value());
  BOOST_TEST(on_device[0].data<float>()[0] == 1234.f);
}

BOOST_AUTO_TEST_CASE(AFailureOfTheDeviceIsThrownWithItsText) {
  Sources sources(5);
  const std::vector<Tensor> weights = first_weights(sources.cpu);
  for (test::LateStream* stream : sources.backend->streams) stream->break_down("an illegal address in relu");
  const std::vector<uint32_t> samples{1, 2, 3};
  BOOST_CHECK_EXCEPTION(sources.late->backward({samples, 1}, weights, [](size_t, Tensor) {}), std::runtime_error,
                        [](const std::exception& e) {
                          return std::string(e.what()).find("an illegal address in relu") != std::string::npos;
                        });
}

BOOST_AUTO_TEST_CASE(MissingMemoryIsToldWithTheLayerThatAskedForIt) {
  Sources sources(6);
  const std::vector<Tensor> weights = first_weights(sources.cpu);
  sources.backend->memory->limit = 150000;  // room for the batch and the weights
  std::vector<uint32_t> samples(200);
  std::iota(samples.begin(), samples.end(), 0u);
  BOOST_CHECK_EXCEPTION(sources.late->backward({samples, 1}, weights, [](size_t, Tensor) {}), std::runtime_error,
                        [](const std::exception& e) {
                          const std::string text = e.what();
                          BOOST_TEST_MESSAGE(text);
                          return text.find("no memory for layer conv1") != std::string::npos;
                        });
}

BOOST_AUTO_TEST_SUITE_END()
