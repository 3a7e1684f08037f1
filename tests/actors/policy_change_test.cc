#include <boost/test/unit_test.hpp>

#include <tests/support/cluster_lab.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(policy_change)

namespace {

std::vector<ps::UpdateRule> all(const ps::Policy& policy) { return {{"*", policy}}; }

ClusterParts changing(std::vector<ps::Policy> from, std::vector<ps::PolicyChange> changes) {
  ClusterParts parts = Bench{}.parts({20, 12}, std::move(from));
  parts.coordinator.dealer.epochs = 3;
  parts.coordinator.changes = std::move(changes);
  return parts;
}

}  // namespace

BOOST_AUTO_TEST_CASE(EveryModeCanFollowEveryOther) {
  const std::vector<ps::Policy> modes{kAllReduce, kSync, kSsp, kAsync};
  for (const ps::Policy& from : modes)
    for (const ps::Policy& to : modes) {
      if (from == to) continue;
      BOOST_TEST_CONTEXT(ps::describe(from) << " to " << ps::describe(to)) {
        // Long enough for modes whose reads may be old, on a machine that does much else.
        ClusterParts parts = changing({from}, {{50, all(to)}});
        parts.coordinator.dealer.epochs = 4;
        const Trial trial = train(std::move(parts));
        BOOST_TEST((trial.result.outcome == ps::Outcome::completed), trial.result.failure);
        BOOST_TEST((trial.result.layout->policies[0] == to));
        BOOST_TEST(trial.result.samples == 4 * 2048);
        BOOST_TEST(trial.accuracy() > 0.9);
        BOOST_TEST_REQUIRE(trial.events.size() == 4u);  // one a layer
        BOOST_TEST(trial.events[0].find(": layer fc1 goes from " + ps::describe(from) + " to " + ps::describe(to)) !=
                   std::string::npos);
      }
    }
}

BOOST_AUTO_TEST_CASE(AChangeBetweenExactModesChangesNoResult) {
  const Trial plain = train(changing({kSync}, {}));
  for (const auto& [from, to] : {std::pair{kSync, kAllReduce}, {kAllReduce, kSync}})
    BOOST_TEST(distance(train(changing({from}, {{50, all(to)}})).parameters(), plain.parameters()) < 1e-5);
}

BOOST_AUTO_TEST_CASE(SyncAfterADetourOverSspWithOneWorkerIsSync) {
  const auto one_worker = [](std::vector<ps::PolicyChange> changes) {
    ClusterParts parts = changing({kSync}, std::move(changes));
    parts.coordinator.dealer.worker_batch = {32};
    return train(std::move(parts));
  };
  BOOST_TEST(distance(one_worker({{40, all(kAsync)}, {80, all(kSync)}}).parameters(), one_worker({}).parameters()) <
             1e-5);
}

BOOST_AUTO_TEST_CASE(AChangeComesAtItsStep) {
  const Trial trial = train(changing({kSync}, {{50, {{"fc2", kAsync}, {"*", kSync}}}}));
  BOOST_TEST_REQUIRE(trial.events.size() == 1u);
  BOOST_TEST(trial.events[0] == "step 50: layer fc2 goes from sync to async");
}

BOOST_AUTO_TEST_CASE(SeveralChangesComeInTheirOrder) {
  const Trial trial = train(changing({kSync}, {{20, all(kAsync)}, {60, all(kAllReduce)}, {90, all(kSsp)}}));
  BOOST_TEST((trial.result.outcome == ps::Outcome::completed), trial.result.failure);
  BOOST_TEST((trial.result.layout->policies[3] == kSsp));
  BOOST_TEST(trial.result.samples == 3 * 2048);
}

BOOST_AUTO_TEST_CASE(TheSameChangeTwiceIsBitIdentical) {
  const auto run = [] { return train(changing({kSync}, {{50, all(kAllReduce)}})).parameters(); };
  BOOST_TEST((run() == run()));
}

BOOST_AUTO_TEST_CASE(AProgramCanChangePoliciesWhileItRuns) {
  auto run = std::make_shared<std::promise<Run*>>();
  auto pieces = std::make_shared<std::atomic<int>>(0);
  Hooks hooks;
  hooks.before_backward = [run, pieces](ps::WorkerId, const Batch&) {
    if (++*pieces == 30) run->get_future().get()->change_policies({{"fc[12]", kSsp}, {"*", kAsync}});
  };
  ClusterParts parts = Bench{}.parts({20, 12}, {kSync}, hooks);
  parts.coordinator.dealer.epochs = 3;
  const auto lab = Lab::start(std::move(parts));
  run->set_value(&lab->run());
  const Trial trial = Lab::finish(lab);
  BOOST_TEST((trial.result.outcome == ps::Outcome::completed));
  BOOST_TEST((trial.result.layout->policies == std::vector{kSsp, kSsp, kAsync, kAsync}));
  BOOST_TEST(trial.result.samples == 3 * 2048);
}

BOOST_AUTO_TEST_CASE(AChangeThatFitsNoLayerIsReportedAndChangesNothing) {
  auto run = std::make_shared<std::promise<Run*>>();
  auto pieces = std::make_shared<std::atomic<int>>(0);
  Hooks hooks;
  hooks.before_backward = [run, pieces](ps::WorkerId, const Batch&) {
    if (++*pieces == 30) run->get_future().get()->change_policies({{"conv*", kSsp}, {"*", kAsync}});
  };
  const auto lab = Lab::start(Bench{}.parts({20, 12}, {kSync}, hooks));
  run->set_value(&lab->run());
  const Trial trial = Lab::finish(lab);
  BOOST_TEST((trial.result.layout->policies[0] == kSync));
  BOOST_TEST_REQUIRE(trial.events.size() == 1u);
  BOOST_TEST(trial.events[0].find("conv*") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(AResumedRunHasThePoliciesOfItsStep) {
  const auto changes = std::vector<ps::PolicyChange>{{50, all(kAllReduce)}};
  const Trial whole = train(changing({kSync}, changes));
  ClusterParts first = changing({kSync}, changes);
  first.coordinator.checkpoint_every_steps = 70;
  ClusterParts rest = changing({kSync}, changes);
  resume_from(rest, train(std::move(first)).checkpoints[0]);
  const Trial second = train(std::move(rest));
  BOOST_TEST((second.result.layout->policies[0] == kAllReduce));
  BOOST_TEST((second.parameters() == whole.parameters()));
}

BOOST_AUTO_TEST_SUITE_END()
