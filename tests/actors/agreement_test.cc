#include <boost/test/unit_test.hpp>

#include <tests/support/cluster_lab.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(agreement)

namespace {

Trial after_steps(int64_t steps, std::vector<int64_t> worker_batch, std::vector<ps::Policy> policies,
                  const Bench& bench = {}, uint32_t servers = 2) {
  ClusterParts parts = bench.parts(std::move(worker_batch), std::move(policies));
  parts.coordinator.dealer.max_steps = steps;
  parts.coordinator.dealer.epochs = 0;
  parts.coordinator.layout.servers = servers;
  return train(std::move(parts));
}

}  // namespace

BOOST_AUTO_TEST_CASE(FourWorkersAgreeWithOneOnTheSameBatch) {
  for (const ps::Policy& policy : {kSync, kAllReduce}) {
    const Trial one = after_steps(20, {256}, {policy}), four = after_steps(20, {64, 64, 64, 64}, {policy});
    BOOST_TEST(distance(four.parameters(), one.parameters()) < 1e-5, ps::describe(policy));
    BOOST_TEST(four.result.samples == 20 * 256);
  }
}

BOOST_AUTO_TEST_CASE(UnequalBatchesAgreeWithTheWholeOne) {
  for (const ps::Policy& policy : {kSync, kAllReduce}) {
    const Trial one = after_steps(20, {64}, {policy}), two = after_steps(20, {48, 16}, {policy});
    BOOST_TEST(distance(two.parameters(), one.parameters()) < 1e-5, ps::describe(policy));
  }
}

BOOST_AUTO_TEST_CASE(SyncAndAllReduceAgreeInOneModel) {
  const Trial sync = after_steps(20, {32, 32}, {kSync});
  const Trial mixed = after_steps(20, {32, 32}, {kSync, kAllReduce, kSync, kAllReduce});
  BOOST_TEST(distance(mixed.parameters(), sync.parameters()) < 1e-5);
}

BOOST_AUTO_TEST_CASE(TheSameRunTwiceIsBitIdentical) {
  for (const ps::Policy& policy : {kSync, kAllReduce})
    BOOST_TEST(
        (after_steps(30, {24, 20, 20}, {policy}).parameters() == after_steps(30, {24, 20, 20}, {policy}).parameters()),
        ps::describe(policy));
}

BOOST_AUTO_TEST_CASE(TheNumberOfServersChangesNoBitOfASyncRun) {
  const Trial one = after_steps(20, {32, 32}, {kSync}, {}, 1);
  const Trial three = after_steps(20, {32, 32}, {kSync}, {}, 3);
  BOOST_TEST((one.parameters() == three.parameters()));
}

BOOST_AUTO_TEST_CASE(MoreServersThanSlicesIsARun) {
  Bench bench;
  bench.model.hidden = {};
  const Trial few = after_steps(10, {32, 32}, {kSync}, bench, 1);
  const Trial many = after_steps(10, {32, 32}, {kSync}, bench, 9);
  BOOST_TEST((few.parameters() == many.parameters()));
}

BOOST_AUTO_TEST_CASE(AStepInWhichAWorkerHasNoSampleStillCounts) {
  // 2041 = 68 x 30 + 1: an epoch's last step has one sample for three workers.
  Bench bench;
  bench.data.samples = 2041;
  ClusterParts parts = bench.parts({28, 1, 1}, {kSync, kAllReduce, kSync, kAllReduce});
  parts.coordinator.dealer.epochs = 2;
  const Trial trial = train(std::move(parts));
  BOOST_TEST((trial.result.outcome == ps::Outcome::completed));
  BOOST_TEST(trial.result.samples == 2 * 2041);
  BOOST_TEST(trial.steps.back().stats.samples == 2041 % 30);
}

// Each worker normalises with its own batch, so that models agree only where statistics are linear: the first
// step's running mean.
BOOST_AUTO_TEST_CASE(TheRunningMeanOfFourWorkersIsThatOfOne) {
  Bench bench;
  bench.data.features = 64;
  bench.model = {.kind = "cnn", .input = {1, 8, 8}, .classes = 5, .hidden = {}, .channels = {4}, .batch_norm = true};
  const auto mean_of = [&](std::vector<int64_t> batch, const ps::Policy& policy) {
    const Trial trial = after_steps(1, std::move(batch), {policy}, bench);
    const ps::Layout& layout = *trial.checkpoints.back().layout;
    std::vector<float> mean;
    for (const ps::SliceState& slice : trial.checkpoints.back().slices)
      for (const ParamSpec& param : layout.layers[layout.slices[slice.slice].layer].params)
        if (param.kind == ParamKind::statistic && mean.empty())
          mean.assign(slice.values.data<float>() + param.offset,
                      slice.values.data<float>() + param.offset + param.shape.count());
    BOOST_TEST_REQUIRE(mean.size() == 4u);
    return mean;
  };
  const std::vector<float> one = mean_of({64}, kSync);
  BOOST_TEST(one[0] != 0);
  for (const ps::Policy& policy : {kSync, kAllReduce})
    BOOST_TEST(distance(mean_of({16, 16, 16, 16}, policy), one) < 1e-5, ps::describe(policy));
}

BOOST_AUTO_TEST_CASE(BatchNormStatisticsAreTheSameUnderSyncAndAllReduce) {
  Bench bench;
  bench.data.features = 64;
  bench.model = {.kind = "cnn", .input = {1, 8, 8}, .classes = 5, .hidden = {}, .channels = {4}, .batch_norm = true};
  const Trial sync = after_steps(10, {16, 16, 16, 16}, {kSync}, bench);
  const Trial reduced = after_steps(10, {16, 16, 16, 16}, {kAllReduce}, bench);
  BOOST_TEST(distance(sync.parameters(), reduced.parameters()) < 1e-5);
}

BOOST_AUTO_TEST_CASE(EachPolicyConvergesLikeOneWorker) {
  const auto accuracy = [](std::vector<int64_t> batch, std::vector<ps::Policy> policies) {
    Bench bench;  // with steps so small that reads as old as a busy machine makes them matter little
    bench.optimizer.learning_rate = 0.02;
    bench.optimizer.momentum = 0.5;
    ClusterParts parts = bench.parts(std::move(batch), std::move(policies));
    parts.coordinator.dealer.epochs = 8;
    return train(std::move(parts)).accuracy();
  };
  const double one = accuracy({64}, {kSync});
  BOOST_TEST(one > 0.9);
  BOOST_TEST(one < 1);  // else nothing is compared
  for (const ps::Policy& policy : {kSync, kAllReduce, kSsp, kAsync})
    BOOST_TEST(accuracy({16, 16, 16, 16}, {policy}) > one - 0.01, ps::describe(policy));
  BOOST_TEST(accuracy({16, 16, 16, 16}, {kSync, kSsp, kAsync, kAllReduce}) > one - 0.01);
}

BOOST_AUTO_TEST_SUITE_END()
