#include <boost/test/unit_test.hpp>

#include <tests/support/cluster_lab.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(failures)

namespace {

bool says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  BOOST_TEST_MESSAGE("'" << text << "' does not hold '" << part << "'");
  return false;
}

/// Throws in worker 1's `piece`-th backward pass, and in every one after it if `always`.
Hooks thrower(int piece, bool always = false) {
  auto pieces = std::make_shared<std::atomic<int>>(0);
  Hooks hooks;
  hooks.before_backward = [=](ps::WorkerId worker, const Batch&) {
    if (worker != 1) return;
    const int now = ++*pieces;
    if (now == piece || (always && now > piece)) throw std::runtime_error("the sensor is gone");
  };
  return hooks;
}

Hooks spoiler(ps::WorkerId worker, int step, size_t layer) {
  auto steps = std::make_shared<std::atomic<int>>(0);
  Hooks hooks;
  hooks.on_gradient = [=](ps::WorkerId w, size_t l, Tensor& gradient) {
    if (w == worker && l == layer && (*steps)++ == step)
      gradient.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  };
  return hooks;
}

ClusterParts parts_of(const std::vector<ps::Policy>& policies, Hooks hooks = {}) {
  ClusterParts parts = Bench{}.parts({16, 16, 16}, policies, std::move(hooks));
  parts.coordinator.max_restarts = 1;
  return parts;
}

class BrokenOptimizer final : public ps::Optimizer {
 public:
  std::string name() const override { return "broken"; }
  std::vector<std::string> state_names() const override { return {}; }
  void apply(const ps::SliceUpdate& update) const override {
    if (update.updates == 5) throw std::runtime_error("the optimizer gave up");
    std::copy(update.in.begin(), update.in.end(), update.out.begin());
  }
};

}  // namespace

// ---- actors that are lost ---------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ASyncRunIsTheSameBitForBitWhenAWorkerWasReplaced) {
  const Trial undisturbed = train(parts_of({kSync}));
  const Trial trial = train(parts_of({kSync}, thrower(7)));
  BOOST_TEST((trial.result.outcome == ps::Outcome::completed), trial.result.failure);
  BOOST_TEST(trial.result.worker_restarts == 1);
  BOOST_TEST((trial.parameters() == undisturbed.parameters()));
  BOOST_TEST_REQUIRE(!trial.events.empty());
  BOOST_TEST(says(trial.events[0], "worker 1 ended: the sensor is gone; starting it again"));
}

BOOST_AUTO_TEST_CASE(AsynchronousRunsCompleteWhenAWorkerWasReplaced) {
  for (const ps::Policy& policy : {kSsp, kAsync}) {
    const Trial trial = train(parts_of({policy}, thrower(7)));
    BOOST_TEST((trial.result.outcome == ps::Outcome::completed), trial.result.failure);
    BOOST_TEST(trial.result.worker_restarts == 1);
    BOOST_TEST(trial.result.samples == 2048);
    int64_t updates = 0, pieces = 0;
    for (const ps::SliceState& slice : trial.checkpoints[0].slices) updates = std::max(updates, slice.updates);
    for (const ps::WorkerReport& worker : trial.result.workers) pieces += worker.pieces;
    BOOST_TEST(updates <= pieces);  // no push of the lost worker is applied a second time
  }
}

BOOST_AUTO_TEST_CASE(TooManyLossesFailTheRunWithTheText) {
  const Trial trial = train(parts_of({kAsync}, thrower(3, true)));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  BOOST_TEST(says(trial.result.failure, "worker 1 ended: the sensor is gone"));
  BOOST_TEST(says(trial.result.failure, "max_restarts = 1"));
}

BOOST_AUTO_TEST_CASE(ALostWorkerOfAnAllReduceGroupFailsTheRunWithTheText) {
  const Trial trial = train(parts_of({kSync, kSync, kAllReduce, kSync}, thrower(3)));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  BOOST_TEST(says(trial.result.failure, "worker 1 ended: the sensor is gone"));
  BOOST_TEST(says(trial.result.failure, "there is none yet: begin anew, with checkpoint.every_steps"));
}

BOOST_AUTO_TEST_CASE(AnOptimizerThatThrowsFailsTheRunNamingTheServer) {
  for (const ps::Policy& policy : {kSync, kAsync}) {
    ClusterParts parts = parts_of({policy});
    parts.optimizer = std::make_shared<BrokenOptimizer>();
    parts.initial = initial_from(parts.source(0), *parts.optimizer, 1);
    const Trial trial = train(std::move(parts));
    BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
    BOOST_TEST(says(trial.result.failure, "server "));
    BOOST_TEST(says(trial.result.failure, "the optimizer gave up"));
  }
}

BOOST_AUTO_TEST_CASE(AnOptimizerThatThrowsOnAWorkerFailsTheRun) {
  ClusterParts parts = parts_of({kAllReduce});
  parts.optimizer = std::make_shared<BrokenOptimizer>();
  parts.initial = initial_from(parts.source(0), *parts.optimizer, 1);
  const Trial trial = train(std::move(parts));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  BOOST_TEST(says(trial.result.failure, "the optimizer gave up"));
}

BOOST_AUTO_TEST_CASE(FirstParametersThatCannotBeReadFailTheRun) {
  ClusterParts parts = parts_of({kSync});
  parts.initial = [](const ps::Slice&) -> ps::SliceState { throw std::runtime_error("the file is cut short"); };
  const Trial trial = train(std::move(parts));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  BOOST_TEST(says(trial.result.failure, "the file is cut short"));
}

BOOST_AUTO_TEST_CASE(ASourceThatCannotBeMadeFailsTheRun) {
  ClusterParts parts = parts_of({kSync});
  parts.source = [](ps::WorkerId) -> std::unique_ptr<GradientSource> { throw std::runtime_error("no licence"); };
  const Trial trial = train(std::move(parts));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  BOOST_TEST(says(trial.result.failure, "no licence"));
}

BOOST_AUTO_TEST_CASE(ASourceOfAnotherModelFailsTheRunNamingTheLayer) {
  ClusterParts parts = parts_of({kSync});
  Bench other;
  other.model.hidden = {32, 16, 17};
  parts.source = other.parts({16, 16, 16}, {kSync}).source;
  const Trial trial = train(std::move(parts));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  BOOST_TEST(says(trial.result.failure, "fc3"));
}

// ---- observers that throw ---------------------------------------------------------------------------------

struct ThrowsAt : RunObserver {
  explicit ThrowsAt(bool end) : end(end) {}
  void on_step(const ps::StepReport&) override { if (!end) throw std::runtime_error("the plot is full"); }
  void on_finished(const ps::RunResult&) override { if (end) throw std::runtime_error("the plot is full"); }
  bool end;
};

BOOST_AUTO_TEST_CASE(AnObserverThatThrowsFailsTheRunAndNobodyWaitsForever) {
  for (const bool end : {false, true}) {
    ClusterParts parts = parts_of({kSync});
    parts.observer = std::make_shared<ThrowsAt>(end);
    const auto run = Run::start(std::move(parts)).value();
    const ps::RunResult& result = run->wait();
    BOOST_TEST((result.outcome == ps::Outcome::failed));
    BOOST_TEST(says(result.failure, "the plot is full"));
  }
}

// ---- gradients that are not finite ------------------------------------------------------------------------

namespace {
/// On demand, worker 1 need not get to its fifth step before the samples are used up.
bool came_too_late(const Trial& trial, const ps::Policy& policy) {
  return !policy.lockstep() && trial.result.outcome == ps::Outcome::completed && trial.result.workers[1].pieces < 5;
}
}  // namespace

BOOST_AUTO_TEST_CASE(NaNStopsTheRunNamingLayerWorkerAndStep) {
  for (const ps::Policy& policy : {kSync, kAllReduce, kSsp, kAsync}) {
    const Trial trial = train(parts_of({policy}, spoiler(1, 4, 2)));
    if (came_too_late(trial, policy)) continue;
    BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
    BOOST_TEST(says(trial.result.failure, "fc3"));
    BOOST_TEST(says(trial.result.failure, "worker 1"));
    BOOST_TEST(says(trial.result.failure, "step 4"));
  }
}

BOOST_AUTO_TEST_CASE(UnderSkipNaNCostsAStepAndNotTheModel) {
  for (const std::vector<ps::Policy>& policies :
       {std::vector{kSync}, {kAllReduce}, {kSsp}, {kAsync}, {kSync, kSsp, kAsync, kAllReduce}}) {
    ClusterParts parts = parts_of(policies, spoiler(1, 4, 2));
    parts.coordinator.skip_non_finite = true;
    const Trial trial = train(std::move(parts));
    BOOST_TEST((trial.result.outcome == ps::Outcome::completed), trial.result.failure);
    for (const float x : trial.parameters()) BOOST_TEST_REQUIRE(std::isfinite(x));
    if (came_too_late(trial, policies[0])) continue;
    BOOST_TEST_REQUIRE(trial.events.size() == 1u);
    BOOST_TEST(says(trial.events[0], "step 4, worker 1: the gradient of layer fc3"));
    BOOST_TEST(trial.result.skipped_steps >= 1);
  }
}

BOOST_AUTO_TEST_CASE(ASkippedSyncStepIsSkippedByEveryLayer) {
  for (const std::vector<ps::Policy>& policies :
       {std::vector{kSync}, {kAllReduce}, {kSync, kAllReduce, kAllReduce, kSync}}) {
    ClusterParts parts = parts_of(policies, spoiler(1, 4, 2));
    parts.coordinator.skip_non_finite = true;
    parts.coordinator.dealer.max_steps = 20;
    const Trial trial = train(std::move(parts));
    for (const ps::SliceState& slice : trial.checkpoints[0].slices) BOOST_TEST(slice.updates == 19);
    BOOST_TEST(trial.result.skipped_steps == 1);
  }
}

// ---- runs that are refused --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(MoreWorkersThanSamplesIsAnError) {
  Bench bench;
  bench.data.samples = 5;
  const auto run = Run::start(bench.parts({1, 1, 1, 1, 1, 1}, {kSync}));
  BOOST_TEST_REQUIRE(!run.has_value());
  BOOST_TEST((run.error().kind == ErrorKind::invalid));
  BOOST_TEST(says(run.error().message, "6"));
  BOOST_TEST(says(run.error().message, "5"));
}

BOOST_AUTO_TEST_CASE(NoServersIsAnError) {
  ClusterParts parts = parts_of({kSync});
  parts.coordinator.layout.servers = 0;
  const auto run = Run::start(std::move(parts));
  BOOST_TEST_REQUIRE(!run.has_value());
  BOOST_TEST(says(run.error().message, "parallel.servers"));
}

BOOST_AUTO_TEST_CASE(NoWorkersIsAnError) {
  ClusterParts parts = parts_of({kSync});
  parts.coordinator.dealer.worker_batch.clear();
  const auto run = Run::start(std::move(parts));
  BOOST_TEST_REQUIRE(!run.has_value());
  BOOST_TEST(says(run.error().message, "workers"));
}

BOOST_AUTO_TEST_SUITE_END()
