#include <boost/test/unit_test.hpp>

#include <mutex>
#include <set>

#include <troupe/ps/transport/memory_transport.h>

#include <tests/support/pipeline_lab.h>
#include <tests/support/random_tokens.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(pipeline)

namespace {

Bench deep() {
  Bench bench;
  bench.model.hidden = {24, 20, 18, 16, 14, 12, 10};
  bench.model.dropout = 0.2;
  bench.data.samples = 512;
  return bench;
}

Trial whole(const Bench& bench, std::vector<int64_t> batch, std::vector<ps::Policy> policies, int64_t steps) {
  ClusterParts parts = bench.parts(std::move(batch), std::move(policies));
  parts.coordinator.dealer.max_steps = steps;
  parts.coordinator.dealer.epochs = 0;
  return train(std::move(parts));
}

Trial in_stages(const Bench& bench, const Pipeline& pipeline, const std::vector<int64_t>& batch,
                std::vector<ps::Policy> policies, int64_t steps) {
  ClusterParts parts = pipeline_parts(bench, pipeline, batch, std::move(policies));
  parts.coordinator.dealer.max_steps = steps;
  parts.coordinator.dealer.epochs = 0;
  return train(std::move(parts));
}

void check_same(const Trial& actual, const Trial& expected, const std::string& what) {
  BOOST_TEST_CONTEXT(what) {
    BOOST_REQUIRE_MESSAGE(actual.result.outcome == ps::Outcome::completed, actual.result.failure);
    BOOST_TEST(distance(actual.parameters(), expected.parameters()) < 1e-5);
    BOOST_TEST(actual.result.samples == expected.result.samples);
    BOOST_TEST(actual.result.evaluation.stats.samples == expected.result.evaluation.stats.samples);
    BOOST_TEST(actual.result.evaluation.stats.correct == expected.result.evaluation.stats.correct);
    BOOST_REQUIRE(actual.steps.size() == expected.steps.size());
    for (size_t i = 0; i < actual.steps.size(); ++i)
      BOOST_TEST(std::abs(actual.steps[i].stats.loss_sum - expected.steps[i].stats.loss_sum) <
                 1e-4 * std::abs(expected.steps[i].stats.loss_sum));
  }
}

const std::vector<Pipeline> kSchedules = {{"sequential", 3, 3}, {"gpipe", 3, 4},          {"1f1b", 3, 4},
                                          {"1f1b", 4, 2},       {"interleaved", 2, 4, 2}, {"zb-h1", 3, 5},
                                          {"zb-h2", 3, 6},      {"zb-v", 2, 4, 2},        {"1f1b", 8, 3}};

}  // namespace

// With dropout: stages draw what one worker draws.
BOOST_AUTO_TEST_CASE(EveryScheduleTrainsAsOneWorkerDoes) {
  const Bench bench = deep();
  const Trial one = whole(bench, {50}, {kSync}, 8);
  for (const Pipeline& pipeline : kSchedules)
    check_same(in_stages(bench, pipeline, {50}, {kSync}, 8), one,
               cat(pipeline.schedule, ", ", pipeline.stages, " stages"));
}

BOOST_AUTO_TEST_CASE(ReplicasOfStagesAgreeWithWorkers) {
  const Bench bench = deep();
  for (const ps::Policy& policy : {kSync, kAllReduce}) {
    const Trial two = whole(bench, {30, 21}, {policy}, 8);
    for (const Pipeline& pipeline :
         {Pipeline{"1f1b", 3, 4}, Pipeline{"interleaved", 2, 4, 2}, Pipeline{"zb-v", 2, 3, 2}})
      check_same(in_stages(bench, pipeline, {30, 21}, {policy}, 8), two,
                 cat(pipeline.schedule, " under ", ps::describe(policy)));
  }
}

BOOST_AUTO_TEST_CASE(EveryLayerKeepsItsOwnPolicy) {
  const Bench bench = deep();
  const std::vector<ps::Policy> mixed{kSync, kAllReduce, kSync, kAllReduce, kAllReduce, kSync, kSync, kAllReduce};
  check_same(in_stages(bench, {"1f1b", 3, 4}, {32, 32}, mixed, 8), whole(bench, {32, 32}, {kSync}, 8), "mixed");
}

BOOST_AUTO_TEST_CASE(AsynchronousLayersOfAPipelineLearnOnEverySampleOnce) {
  const Bench bench;
  for (const ps::Policy& policy : {kAsync, kSsp}) {
    ClusterParts parts = pipeline_parts(bench, {"1f1b", 3, 4}, {16, 16}, {policy});
    parts.coordinator.dealer.epochs = 6;
    const Trial trial = train(std::move(parts));
    BOOST_REQUIRE_MESSAGE(trial.result.outcome == ps::Outcome::completed, trial.result.failure);
    BOOST_TEST(trial.result.samples == 6 * bench.data.samples, ps::describe(policy));
    BOOST_TEST(trial.accuracy() > 0.8);
  }
}

BOOST_AUTO_TEST_CASE(ClippingSeesTheNormOfAllStages) {
  const Bench bench = deep();
  const auto clipped = [](ClusterParts parts) {
    parts.coordinator.clip_norm = 0.05;
    parts.coordinator.dealer.max_steps = 8;
    parts.coordinator.dealer.epochs = 0;
    return train(std::move(parts));
  };
  for (const ps::Policy& policy : {kSync, kAllReduce})
    check_same(clipped(pipeline_parts(bench, {"1f1b", 3, 4}, {32, 32}, {policy})),
               clipped(bench.parts({32, 32}, {policy})), ps::describe(policy));
}

// Batch norm sees a micro-batch at a time: one of them is the batch that one worker sees.
BOOST_AUTO_TEST_CASE(AResnetOfBottlenecksInTwoStagesTrainsAsOneWorkerDoesRecomputedToo) {
  Bench bench;
  bench.data.samples = 96;
  bench.data.features = 64;
  bench.model = {
      .kind = "resnet", .input = {1, 8, 8}, .classes = 5, .channels = {4, 4}, .blocks = {1, 1}, .block = "bottleneck"};
  const Trial one = whole(bench, {8, 8}, {kSync}, 4);
  for (const char* recompute : {"none", "full"}) {
    bench.model.recompute = recompute;
    check_same(in_stages(bench, {"1f1b", 2, 1}, {8, 8}, {kSync}, 4), one, recompute);
  }
}

BOOST_AUTO_TEST_CASE(TheSameRunTwiceIsBitIdentical) {
  const Bench bench = deep();
  const auto run = [&] { return in_stages(bench, {"zb-h1", 3, 5}, {30, 20}, {kSync}, 12).parameters(); };
  BOOST_TEST((run() == run()));
}

BOOST_AUTO_TEST_CASE(AnEpochsShortLastBatchIsExact) {
  Bench bench = deep();
  bench.data.samples = 150;  // 64, 64, 22
  ClusterParts one = bench.parts({64}, {kSync}), stages = pipeline_parts(bench, {"1f1b", 3, 4}, {64}, {kSync});
  one.coordinator.dealer.epochs = stages.coordinator.dealer.epochs = 2;
  check_same(train(std::move(stages)), train(std::move(one)), "two epochs");
}

// The others of its replica have activations of a step that begins again, and may have completed it.
BOOST_AUTO_TEST_CASE(AReplicaThatLosesAStageRepeatsItsStepAndNothingCountsTwice) {
  const Bench bench = deep();
  const Trial expected = whole(bench, {30, 21}, {kSync}, 8);
  using At = FailingStage::At;
  for (const ps::WorkerId where : {0u, 1u, 5u})
    for (const At at : {At::forward, At::backward_input, At::backward_weight})
      for (const int call : {1, 4, 10, 17}) {
        ClusterParts parts = with_failure(pipeline_parts(bench, {"1f1b", 3, 4}, {30, 21}, {kSync}), where, at, call);
        parts.coordinator.dealer.max_steps = 8;
        parts.coordinator.dealer.epochs = 0;
        parts.coordinator.max_restarts = 1;
        const Trial trial = train(std::move(parts));
        BOOST_TEST(trial.result.worker_restarts == 1);
        check_same(trial, expected, cat("worker ", where, ", kind ", static_cast<int>(at), ", call ", call));
      }
}

BOOST_AUTO_TEST_CASE(AStageLostWhileItTestsIsTestedAgain) {
  const Bench bench = deep();
  const Trial expected = whole(bench, {32}, {kSync}, 3);
  // 3 steps of 4 micro-batches, then the test set in one.
  ClusterParts parts =
      with_failure(pipeline_parts(bench, {"1f1b", 3, 4}, {32}, {kSync}), 1, FailingStage::At::forward, 13);
  parts.coordinator.dealer.max_steps = 3;
  parts.coordinator.dealer.epochs = 0;
  parts.coordinator.max_restarts = 1;
  const Trial trial = train(std::move(parts));
  BOOST_TEST(trial.result.worker_restarts == 1);
  check_same(trial, expected, "evaluation");
}

BOOST_AUTO_TEST_CASE(AsynchronousStagesGoOnAfterALoss) {
  const Bench bench;
  for (const int call : {3, 30, 61}) {
    ClusterParts parts = with_failure(pipeline_parts(bench, {"1f1b", 2, 4}, {16, 16}, {kAsync}), 1,
                                      FailingStage::At::backward_input, call);
    parts.coordinator.dealer.epochs = 2;
    parts.coordinator.max_restarts = 1;
    const Trial trial = train(std::move(parts));
    BOOST_REQUIRE_MESSAGE(trial.result.outcome == ps::Outcome::completed, trial.result.failure);
    BOOST_TEST(trial.result.samples == 2 * bench.data.samples);
  }
}

BOOST_AUTO_TEST_CASE(AStageThatHangsIsNamedByTheOneThatWaits) {
  const Bench bench = deep();
  ClusterParts parts = pipeline_parts(bench, {"1f1b", 3, 4}, {32}, {kSync});
  parts.stage.stall_ms = 600;
  class Hanging final : public ps::Transport {
   public:
    Hanging(std::shared_ptr<ps::Transport> inner) : inner_(std::move(inner)) {}
    void send(ps::Envelope envelope) override {
      const auto* activation = std::get_if<ps::Activation>(&envelope.body);
      if (activation && activation->kind == ps::Activation::Kind::backward && activation->chunk == 0) return;
      inner_->send(std::move(envelope));
    }
    void attach(const ps::Endpoint& who, Sink sink) override { inner_->attach(who, std::move(sink)); }
    void detach(const ps::Endpoint& who) override { inner_->detach(who); }
    bool reliable() const override { return true; }

   private:
    std::shared_ptr<ps::Transport> inner_;
  };
  parts.transport = std::make_shared<Hanging>(std::make_shared<ps::MemoryTransport>());
  parts.coordinator.dealer.max_steps = 3;
  parts.coordinator.dealer.epochs = 0;
  const Trial trial = train(std::move(parts));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  // Stage 0 lacks the gradient, and the others soon lack what it does not send: whichever notices first is heard.
  const std::string& failure = trial.result.failure;
  const auto names = [&](int waiting, const char* what, int from) {
    const auto stage = [](int i) { return cat("worker ", i, " (stage ", i, " of replica 0)"); };
    return failure.find(cat(stage(waiting), ": in step 0 it has waited ")) == 0 &&
           failure.find(cat(" s for ", what, " from ", stage(from))) != std::string::npos;
  };
  BOOST_TEST((names(0, "gradients of micro-batch 0", 1) || names(1, "outputs of micro-batch 3", 0) ||
              names(2, "outputs of micro-batch 3", 1)),
             failure);
}

BOOST_AUTO_TEST_CASE(StagesAreJudgedByTheirTimesAndWhatIsSaidIsAnEvent) {
  ClusterParts parts = pipeline_parts(deep(), {"1f1b", 3, 4}, {16, 16}, {kSync});
  parts.coordinator.dealer.max_steps = 70;
  parts.coordinator.dealer.epochs = 0;
  std::vector<std::vector<double>> judged;
  parts.coordinator.judge_stages = [&](const std::vector<double>& seconds) {
    judged.push_back(seconds);
    return judged.size() == 1 ? std::string("stage 2 is slow") : std::string();
  };
  const Trial trial = train(std::move(parts));
  BOOST_REQUIRE_MESSAGE(trial.result.outcome == ps::Outcome::completed, trial.result.failure);
  BOOST_REQUIRE(judged.size() == 2u);  // at steps 32 and 64
  for (const auto& seconds : judged) {
    BOOST_TEST(seconds.size() == 3u);
    for (const double each : seconds) BOOST_TEST(each > 0);
  }
  for (size_t stage = 0; stage < 3; ++stage) BOOST_TEST(judged[1][stage] > judged[0][stage]);
  BOOST_TEST(std::ranges::count(trial.events, "step 32: stage 2 is slow") == 1);
}

BOOST_AUTO_TEST_CASE(AnActivationIsReadWhereTheStageBeforeWroteIt) {
  // Addresses of what was handed on and of what came in.
  struct Seen {
    std::mutex mutex;
    std::multiset<const void*> out, in;
  };
  class Watching final : public StageSource {
   public:
    Watching(std::unique_ptr<StageSource> source, std::shared_ptr<Seen> seen)
        : source_(std::move(source)), seen_(std::move(seen)) {}
    const std::vector<LayerSpec>& layers() const override { return source_->layers(); }
    Tensor forward(const MicroBatch& micro, std::span<const Tensor> weights, Tensor x) override {
      return pass(x, [&](Tensor t) { return source_->forward(micro, weights, std::move(t)); });
    }
    Tensor backward_input(const MicroBatch& micro, std::span<const Tensor> weights, Tensor dy) override {
      return pass(dy, [&](Tensor t) { return source_->backward_input(micro, weights, std::move(t)); });
    }
    void backward_weight(const MicroBatch& micro, std::span<const Tensor> weights) override {
      source_->backward_weight(micro, weights);
    }
    Tensor take_gradient(size_t layer) override { return source_->take_gradient(layer); }
    StepStats take_stats() override { return source_->take_stats(); }
    void reset() override { source_->reset(); }

   private:
    Tensor pass(Tensor& input, const std::function<Tensor(Tensor)>& compute) {
      note(seen_->in, input);
      kept_.push_back(input);  // so that no address comes twice
      Tensor output = compute(std::move(input));
      note(seen_->out, output);
      kept_.push_back(output);
      return output;
    }
    void note(std::multiset<const void*>& where, const Tensor& t) {
      std::lock_guard lock(seen_->mutex);
      if (t) where.insert(t.raw());
    }
    std::unique_ptr<StageSource> source_;
    std::shared_ptr<Seen> seen_;
    std::vector<Tensor> kept_;
  };
  const auto seen = std::make_shared<Seen>();
  ClusterParts parts = pipeline_parts(deep(), {"1f1b", 3, 4}, {32}, {kSync});
  parts.stage_source = [make = parts.stage_source, seen](ps::WorkerId worker) {
    return std::make_unique<Watching>(make(worker), seen);
  };
  parts.coordinator.dealer.max_steps = 3;
  parts.coordinator.dealer.epochs = 0;
  const Trial trial = train(std::move(parts));
  BOOST_REQUIRE_MESSAGE(trial.result.outcome == ps::Outcome::completed, trial.result.failure);
  BOOST_TEST(seen->in.size() >= 3u * 4 * 4);  // steps, micro-batches, two boundaries both ways
  BOOST_TEST((seen->in == seen->out));
}

namespace {

// The embedding is the head's matrix, on the first stage and on the last.
Bench tied_transformer() {
  Bench bench;
  bench.model = {};
  bench.model.kind = "gpt";
  bench.model.input = {7};
  bench.model.classes = 11;
  bench.model.layers = 3;
  bench.model.heads = 2;
  bench.model.width = 8;
  bench.model.context = 7;
  bench.model.tied = true;
  bench.model.dropout = 0.1;
  bench.optimizer = {.name = "adamw", .learning_rate = 0.01};
  bench.own.train = std::make_shared<RandomTokens>(96, 7, 11);
  bench.own.test = std::make_shared<RandomTokens>(32, 7, 11);
  return bench;
}

// The embedding by itself, the others otherwise.
std::vector<ps::Policy> embedding_by(const Bench& bench, ps::Policy embedding, ps::Policy others) {
  std::vector<ps::Policy> policies(nn::make_model(bench.model).value().layers().size(), others);
  policies.front() = embedding;
  return policies;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ATransformerWithTiedWeightsTrainsAsOneWorkerDoes) {
  const Bench bench = tied_transformer();
  const Trial one = whole(bench, {14}, {kSync}, 6), two = whole(bench, {8, 6}, {kSync}, 6);
  for (const Pipeline& pipeline : {Pipeline{"1f1b", 3, 4}, Pipeline{"zb-h1", 2, 3}, Pipeline{"zb-v", 2, 4, 2}}) {
    check_same(in_stages(bench, pipeline, {14}, {kSync}, 6), one, pipeline.schedule);
    check_same(in_stages(bench, pipeline, {8, 6}, {kSync}, 6), two, cat(pipeline.schedule, ", two replicas"));
  }
}

// Both stages keep the layer in step, each with the same stage of the other replica.
BOOST_AUTO_TEST_CASE(TiedWeightsMayBeAllReduced) {
  const Bench bench = tied_transformer();
  const Trial one = whole(bench, {14}, {kSync}, 6), two = whole(bench, {8, 6}, {kSync}, 6);
  for (const auto& policies : {embedding_by(bench, kAllReduce, kAllReduce), embedding_by(bench, kAllReduce, kSync)})
    for (const Pipeline& pipeline : {Pipeline{"1f1b", 2, 4}, Pipeline{"zb-h1", 3, 3}, Pipeline{"zb-v", 2, 4, 2}}) {
      check_same(in_stages(bench, pipeline, {14}, policies, 6), one, pipeline.schedule);
      check_same(in_stages(bench, pipeline, {8, 6}, policies, 6), two, cat(pipeline.schedule, ", two replicas"));
    }
}

BOOST_AUTO_TEST_CASE(ClippingCountsAnAllReducedTiedLayerOnce) {
  const Bench bench = tied_transformer();
  const auto clipped = [](ClusterParts parts) {
    parts.coordinator.dealer.max_steps = 4;
    parts.coordinator.dealer.epochs = 0;
    parts.coordinator.clip_norm = 0.05;
    return train(std::move(parts));
  };
  const Trial expected = clipped(bench.parts({8, 6}, {kSync}));
  for (const auto& policies : {embedding_by(bench, kAllReduce, kAllReduce), embedding_by(bench, kAllReduce, kSync)})
    check_same(clipped(pipeline_parts(bench, {"1f1b", 2, 4}, {8, 6}, policies)), expected, "clipped");
}

BOOST_AUTO_TEST_CASE(ATiedLayersPolicyMayChangeDuringTheRun) {
  const Bench bench = tied_transformer();
  const Trial expected = in_stages(bench, {"1f1b", 2, 4}, {8, 6}, {kSync}, 8);
  for (const bool later : {true, false}) {
    ClusterParts parts = pipeline_parts(bench, {"1f1b", 2, 4}, {8, 6}, {later ? kSync : kAllReduce});
    parts.coordinator.dealer.max_steps = 8;
    parts.coordinator.dealer.epochs = 0;
    parts.coordinator.changes = {{4, {{"*", later ? kAllReduce : kSync}}}};
    check_same(train(std::move(parts)), expected, later ? "to all_reduce" : "to sync");
  }
}

BOOST_AUTO_TEST_SUITE_END()
