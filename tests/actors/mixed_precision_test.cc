#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cmath>

#include <troupe/ps/transport/memory_transport.h>

#include <tests/support/pipeline_lab.h>
#include <tests/support/random_tokens.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(mixed_precision)

namespace {

constexpr ps::LossScaling kDynamic{.dynamic = true, .initial = 65536};
const std::vector<DType> kHalves{DType::bf16, DType::f16};

Bench mlp(DType storage) {
  Bench bench;
  bench.storage = storage;
  return bench;
}

Bench gpt(DType storage) {
  Bench bench;
  bench.storage = storage;
  bench.model = {.kind = "gpt", .input = {8}, .classes = 11, .dropout = 0, .layers = 2, .heads = 2, .width = 16,
                 .context = 8, .tied = false};
  bench.optimizer = {.name = "adamw", .learning_rate = 0.01};
  bench.own.train = std::make_shared<RandomTokens>(128, 8, 11);
  bench.own.test = std::make_shared<RandomTokens>(32, 8, 11);
  return bench;
}

ClusterParts scaled(ClusterParts parts, const ps::LossScaling& scaling, int64_t steps) {
  parts.coordinator.loss_scaling = scaling;
  parts.coordinator.skip_non_finite = scaling.dynamic;
  parts.coordinator.dealer.max_steps = steps;
  parts.coordinator.dealer.epochs = 0;
  return parts;
}

/// One worker for all samples or for each replica, or two stages of one micro-batch: the same sums in the same order.
enum class Shape { one, two, reduced, stages };
const std::vector<std::pair<Shape, const char*>> kShapes{{Shape::one, "one worker"},
                                                         {Shape::two, "two workers"},
                                                         {Shape::reduced, "two all-reducing"},
                                                         {Shape::stages, "stages"}};

ClusterParts parts_of(const Bench& bench, Shape shape) {
  switch (shape) {
    case Shape::two: return bench.parts({20, 12}, {kSync});
    case Shape::reduced: return bench.parts({20, 12}, {kAllReduce});
    case Shape::stages: return pipeline_parts(bench, {"1f1b", 2, 1}, {32}, {kSync});
    default: return bench.parts({32}, {kSync});
  }
}

Trial run(const Bench& bench, Shape shape, const ps::LossScaling& scaling, int64_t steps) {
  Trial trial = train(scaled(parts_of(bench, shape), scaling, steps));
  BOOST_REQUIRE_MESSAGE(trial.result.outcome == ps::Outcome::completed, trial.result.failure);
  return trial;
}

/// Mean training loss of the last `steps` steps.
double last_loss(const Trial& trial, size_t steps) {
  StepStats sum;
  for (size_t i = trial.steps.size() - steps; i < trial.steps.size(); ++i) {
    sum.loss_sum += trial.steps[i].stats.loss_sum;
    sum.samples += trial.steps[i].stats.samples;
  }
  return sum.loss_sum / static_cast<double>(sum.samples);
}

std::vector<double> scales_of(const Trial& trial) {
  std::vector<double> scales;
  for (const ps::StepReport& step : trial.steps) scales.push_back(step.loss_scale);
  return scales;
}

std::vector<bool> skipped_in(const Trial& trial) {
  std::vector<bool> skipped;
  for (const ps::StepReport& step : trial.steps) skipped.push_back(!step.non_finite.empty());
  return skipped;
}

}  // namespace

BOOST_AUTO_TEST_CASE(AnMlpAndATransformerLearnInHalvesWhatTheyLearnInF32) {
  for (const auto& make : {mlp, gpt}) {
    const double f32 = last_loss(run(make(DType::f32), Shape::two, {}, 150), 20);
    const double first = last_loss(run(make(DType::f32), Shape::two, {}, 1), 1);
    BOOST_TEST(f32 < 0.7 * first);
    const double tolerance = 0.03 * first;
    BOOST_TEST(std::abs(last_loss(run(make(DType::bf16), Shape::two, {}, 150), 20) - f32) < tolerance);
    BOOST_TEST(std::abs(last_loss(run(make(DType::f16), Shape::two, kDynamic, 150), 20) - f32) < tolerance);
  }
}

BOOST_AUTO_TEST_CASE(TheSameRunTwiceIsBitIdentical) {
  for (const auto& [shape, name] : kShapes) {
    const auto once = [shape = shape] { return run(mlp(DType::f16), shape, kDynamic, 20).parameters(); };
    BOOST_TEST((once() == once()), name);
  }
}

BOOST_AUTO_TEST_CASE(TwoStagesTrainToTheBitsOfOneWorker) {
  for (const auto& make : {mlp, gpt})
    for (const DType storage : kHalves) {
      const Trial one = run(make(storage), Shape::one, kDynamic, 12),
                  two = run(make(storage), Shape::stages, kDynamic, 12);
      BOOST_TEST((one.parameters() == two.parameters()), name_of(storage));
      BOOST_TEST(one.result.evaluation.stats.correct == two.result.evaluation.stats.correct);
    }
}

// 2^40 is far too much for any gradient in f16: it falls until it is not.
BOOST_AUTO_TEST_CASE(EveryWorkerSkipsTheStepsThatOverflowAndTheScaleHalves) {
  const ps::LossScaling huge{.dynamic = true, .initial = 0x1p40};
  for (const auto& [shape, name] : kShapes) {
    BOOST_TEST_CONTEXT(name) {
      const Trial trial = run(mlp(DType::f16), shape, huge, 40);
      const std::vector<double> scales = scales_of(trial);
      const std::vector<bool> skipped = skipped_in(trial);
      BOOST_TEST(skipped[0]);
      BOOST_TEST(!skipped[39]);
      for (size_t i = 1; i < scales.size(); ++i) BOOST_TEST(scales[i] == scales[i - 1] * (skipped[i - 1] ? 0.5 : 1));
      BOOST_TEST(trial.result.skipped_steps == std::ranges::count(skipped, true));
      // No layer of any worker or server took a step that another skipped.
      for (const ps::SliceState& slice : trial.checkpoints.back().slices)
        BOOST_TEST(slice.updates == 40 - trial.result.skipped_steps);
    }
  }
}

BOOST_AUTO_TEST_CASE(AnOverflowOfOneWorkerAloneIsTheGroups) {
  for (const ps::Policy& policy : {kSync, kAllReduce}) {
    Hooks hooks;
    const auto calls = std::make_shared<std::atomic<int>>(0);
    hooks.on_gradient = [calls](ps::WorkerId worker, size_t layer, Tensor& gradient) {
      if (worker == 1 && layer == 2 && (*calls)++ == 4) gradient.data<float>()[0] = INFINITY;
    };
    const Trial trial = train(scaled(mlp(DType::f16).parts({20, 12}, {policy}, hooks), kDynamic, 10));
    BOOST_REQUIRE_MESSAGE(trial.result.outcome == ps::Outcome::completed, trial.result.failure);
    std::vector<double> expected(5, 65536);
    expected.resize(10, 32768);
    BOOST_TEST(scales_of(trial) == expected, boost::test_tools::per_element());
    BOOST_TEST(trial.result.skipped_steps == 1);
    for (const ps::SliceState& slice : trial.checkpoints.back().slices) BOOST_TEST(slice.updates == 9);
  }
}

BOOST_AUTO_TEST_CASE(AResumeInTheMidstOfAGrowthIntervalChangesNoBit) {
  const ps::LossScaling growing{.dynamic = true, .initial = 1024, .interval = 7};
  for (const auto& [shape, name] : kShapes) {
    BOOST_TEST_CONTEXT(name) {
      const auto make = [shape = shape, &growing] { return scaled(parts_of(mlp(DType::f16), shape), growing, 24); };
      ClusterParts watched = make();
      watched.coordinator.checkpoint_every_steps = 10;
      const Trial whole = train(std::move(watched));
      BOOST_TEST_REQUIRE(whole.checkpoints.size() == 3u);
      BOOST_TEST((whole.checkpoints[0].loss_scale == ps::LossScale{2048, 3}));
      ClusterParts rest = make();
      resume_from(rest, whole.checkpoints[0]);
      const Trial resumed = train(std::move(rest));
      BOOST_TEST((resumed.parameters() == whole.parameters()));
      BOOST_TEST(resumed.steps.back().loss_scale == whole.steps.back().loss_scale);
      BOOST_TEST(whole.steps.back().loss_scale == 8192);
    }
  }
}

BOOST_AUTO_TEST_CASE(AFixedScaleWorksUnderEveryPolicy) {
  const ps::LossScaling fixed{.initial = 1024};
  for (const ps::Policy& policy : {kSync, kAllReduce, kSsp, kAsync}) {
    const Trial trial = train(scaled(mlp(DType::f16).parts({20, 12}, {policy}), fixed, 60));
    BOOST_REQUIRE_MESSAGE(trial.result.outcome == ps::Outcome::completed, trial.result.failure);
    BOOST_TEST(trial.accuracy() > 0.6, ps::describe(policy));
  }
}

BOOST_AUTO_TEST_CASE(BytesBetweenStagesAreHalved) {
  class Counting final : public ps::Transport {
   public:
    void send(ps::Envelope envelope) override {
      if (const auto* activation = std::get_if<ps::Activation>(&envelope.body))
        for (const Tensor& tensor : activation->tensors) bytes += tensor.bytes();
      inner_.send(std::move(envelope));
    }
    void attach(const ps::Endpoint& who, Sink sink) override { inner_.attach(who, std::move(sink)); }
    void detach(const ps::Endpoint& who) override { inner_.detach(who); }
    bool reliable() const override { return inner_.reliable(); }
    std::atomic<size_t> bytes = 0;

   private:
    ps::MemoryTransport inner_;
  };
  const auto bytes = [](DType storage) {
    ClusterParts parts = scaled(pipeline_parts(mlp(storage), {"1f1b", 2, 4}, {32}, {kSync}), {}, 5);
    const auto transport = std::make_shared<Counting>();
    parts.transport = transport;
    const Trial trial = train(std::move(parts));
    BOOST_REQUIRE_MESSAGE(trial.result.outcome == ps::Outcome::completed, trial.result.failure);
    return transport->bytes.load();
  };
  const size_t f32 = bytes(DType::f32);
  BOOST_TEST(f32 > 0u);
  for (const DType storage : kHalves) BOOST_TEST(2 * bytes(storage) == f32);
}

BOOST_AUTO_TEST_CASE(AStageThatHandsOnAnotherTypeIsNamed) {
  ClusterParts parts = scaled(pipeline_parts(mlp(DType::bf16), {"1f1b", 2, 4}, {32}, {kSync}), {}, 5);
  parts.stage.activations = DType::f16;
  const Trial trial = train(std::move(parts));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  BOOST_TEST(
      trial.result.failure.find("of micro-batch 0 for chunk 1 in step 0 as BF16, expected F16") != std::string::npos,
      trial.result.failure);
}

BOOST_AUTO_TEST_SUITE_END()
