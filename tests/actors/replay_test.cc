#include <boost/test/unit_test.hpp>

#include <tests/support/cluster_lab.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(replay)

namespace {

ClusterParts parts_of(const std::vector<ps::Policy>& policies) {
  ClusterParts parts = Bench{}.parts({16, 16, 16}, policies);
  parts.coordinator.dealer.epochs = 2;
  parts.coordinator.evaluate_every_epochs = 1;  // a boundary on the way
  return parts;
}

std::shared_ptr<ps::Recording> record_into(ClusterParts& parts) {
  auto recording = std::make_shared<ps::Recording>();
  recording->events.resize(parts.coordinator.layout.servers);
  parts.record_dealt = [recording](const ps::CoordinatorCore::Dealt& dealt) { recording->dealt.push_back(dealt); };
  parts.record_event = [recording](ps::ServerId server, const ps::Shard::Event& event) {
    recording->events[server].push_back(event);
  };
  return recording;
}

std::pair<Trial, ps::Recording> record(ClusterParts parts) {
  const auto recording = record_into(parts);
  Trial trial = train(std::move(parts));
  return {std::move(trial), *recording};
}

void check_replay(const std::vector<ps::Policy>& policies) {
  const auto [first, recording] = record(parts_of(policies));
  BOOST_TEST_REQUIRE(recording.dealt.size() >= 2 * 2048 / 16);
  for (int repetition = 0; repetition < 2; ++repetition) {
    ClusterParts again = parts_of(policies);
    again.replay = recording;
    const auto [second, recorded_again] = record(std::move(again));
    BOOST_TEST((second.result.outcome == ps::Outcome::completed), second.result.failure);
    BOOST_TEST((second.parameters() == first.parameters()));
    BOOST_TEST((recorded_again == recording));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(AnAsyncRunIsRepeatedBitForBit) { check_replay({kAsync}); }
BOOST_AUTO_TEST_CASE(AnSspRunIsRepeatedBitForBit) { check_replay({kSsp}); }
BOOST_AUTO_TEST_CASE(ARunOfBothKindsIsRepeatedBitForBit) { check_replay({kSsp, kAsync, kAsync, kSsp}); }
BOOST_AUTO_TEST_CASE(ARunOfAllModesIsRepeatedBitForBit) { check_replay({kSync, kSsp, kAsync, kAllReduce}); }

BOOST_AUTO_TEST_CASE(ARunWhosePoliciesChangeIsRepeatedBitForBit) {
  const auto make = [] {
    ClusterParts parts = parts_of({kAsync});
    parts.coordinator.changes = {{30, {{"*", kSsp}}}, {50, {{"fc1", kSync}, {"*", kAsync}}}};
    return parts;
  };
  const auto [first, recording] = record(make());
  ClusterParts again = make();
  again.replay = recording;
  BOOST_TEST((train(std::move(again)).parameters() == first.parameters()));
}

BOOST_AUTO_TEST_CASE(ARunThatWasStoppedWhileAWorkerLaggedIsRepeatedUpToThere) {
  auto held = std::make_shared<std::promise<void>>(), stopped = std::make_shared<std::promise<void>>();
  auto begun = std::make_shared<std::atomic<int>>(0);
  auto first = std::make_shared<std::atomic<bool>>(true);
  Hooks hooks;
  hooks.before_backward = [=](ps::WorkerId worker, const Batch&) {
    if (worker > 0 && ++*begun == 6) held->set_value();  // both are as far ahead as kSsp lets them
    if (worker == 0 && first->exchange(false)) stopped->get_future().wait();
  };
  ClusterParts parts = Bench{}.parts({16, 16, 16}, {kSsp}, hooks);
  const auto recording = record_into(parts);
  const auto lab = Lab::start(std::move(parts));
  held->get_future().wait();
  lab->run().stop();
  stopped->set_value();
  const Trial trial = Lab::finish(lab);
  BOOST_TEST(std::count_if(recording->dealt.begin(), recording->dealt.end(), [](const auto& d) { return d.idle; }) > 0);

  ClusterParts again = parts_of({kSsp});
  again.coordinator.evaluate_every_epochs = 0;
  again.replay = *recording;
  BOOST_TEST((train(std::move(again)).parameters() == trial.parameters()));
}

BOOST_AUTO_TEST_SUITE_END()
