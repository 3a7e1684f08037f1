#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "tools/sim/reference.h"
#include "tools/sim/simulation.h"

using namespace troupe;
using namespace troupe::sim;

BOOST_AUTO_TEST_SUITE(simulation)

BOOST_AUTO_TEST_CASE(ASeedAlwaysGivesTheSameRun) {
  for (const uint64_t seed : {3, 11, 42, 978}) {
    const SimulationResult first = simulate(make_scenario(seed)), second = simulate(make_scenario(seed), 100);
    BOOST_TEST(first.hash == second.hash);
    BOOST_TEST(first.events == second.events);
    BOOST_TEST(first.virtual_us == second.virtual_us);
  }
}

BOOST_AUTO_TEST_CASE(SeedsDiffer) {
  std::set<uint64_t> hashes;
  for (uint64_t seed = 0; seed < 50; ++seed) hashes.insert(simulate(make_scenario(seed)).hash);
  BOOST_TEST(hashes.size() == 50u);
}

BOOST_AUTO_TEST_CASE(SeedsCoverEveryMishapAndMode) {
  std::set<Mishap::Kind> kinds;
  std::set<ps::Mode> modes;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Scenario scenario = make_scenario(seed);
    for (const Mishap& mishap : scenario.mishaps) kinds.insert(mishap.kind);
    for (const ps::Policy& policy : scenario.coordinator.policies) modes.insert(policy.mode);
  }
  BOOST_TEST(kinds.size() == 16u);
  BOOST_TEST(modes.size() == 4u);
}

BOOST_AUTO_TEST_CASE(RunsOverProcessesLoseMoveAndFenceThem) {
  const std::vector<std::string> events = {
      "takes over", "moves", "go on without it", "works again", "leaves", "joined", "it was not heard of for too long",
      "its connection broke", "its place was taken", "starting it again", "the coordinator was started again",
      "goes on from the checkpoint", "there is no checkpoint yet", "from its store", "the old coordinator goes on"};
  std::map<std::string, int> seen;
  int runs = 0, failed = 0;
  for (uint64_t seed = 0; seed < 1200; ++seed) {
    const Scenario scenario = make_scenario(seed);
    if (!scenario.over_hosts()) continue;
    ++runs;
    const SimulationResult result = simulate(scenario, 1'000'000);
    BOOST_TEST(!result.violation.has_value(), "seed " << seed << ": " << result.violation.value_or(""));
    failed += result.failed;
    for (const std::string& event : events) seen[event] += result.trace.find(event) != std::string::npos;
  }
  // Runs are short: few lose a server after their first checkpoint.
  const auto rare = [](const std::string& event) { return event == "goes on from the checkpoint"; };
  for (const std::string& event : events)
    BOOST_TEST(seen[event] > (rare(event) ? 0 : 2), event << " in " << seen[event] << " runs");
  BOOST_TEST(runs > 80);
  BOOST_TEST(failed * 5 < runs, failed << " of " << runs << " runs had to fail");
}

BOOST_AUTO_TEST_CASE(HostsAddUpJoinAgainAndAreLeftInTheMidst) {
  std::map<std::string, int> seen;
  int runs = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const Scenario scenario = make_scenario(seed);
    if (scenario.host_size == 0) continue;
    ++runs;
    const SimulationResult result = simulate(scenario, 1'000'000);
    BOOST_TEST(!result.violation.has_value(), "seed " << seed << ": " << result.violation.value_or(""));
    for (const std::string event : {"group 1 of", "group 2 of", "of 3 members", "leaves its host while"})
      seen[event] += result.trace.find(event) != std::string::npos;
  }
  BOOST_TEST(runs > 40);
  for (const auto& [event, times] : seen) BOOST_TEST(times > 2, event << " in " << times << " runs");
}

BOOST_AUTO_TEST_CASE(TheNetworkLosesAndDoublesWhatItsScenarioSays) {
  int64_t sent = 0, lost = 0, doubled = 0;
  double expected_lost = 0, expected_doubled = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Scenario scenario = make_scenario(seed);
    if (scenario.over_hosts()) continue;  // processes die in them, and with them what they say
    scenario.heal_us = 1'000'000'000;  // longer than the run
    scenario.mishaps.clear();
    const auto counts = simulate(scenario).messages;
    sent += counts.sent, lost += counts.lost, doubled += counts.doubled;
    expected_lost += scenario.network.loss * static_cast<double>(counts.sent);
    expected_doubled += scenario.network.duplication * static_cast<double>(counts.sent);
  }
  BOOST_TEST(sent > 50'000);
  BOOST_TEST(static_cast<double>(lost) == expected_lost, boost::test_tools::tolerance(0.1));
  BOOST_TEST(static_cast<double>(doubled) == expected_doubled, boost::test_tools::tolerance(0.1));
}

BOOST_AUTO_TEST_CASE(TheReferenceSumsChangesByStep) {
  const std::vector<float> layer = {3, -1};
  ReferenceSlice slice(ps::Slice{0, 0, 0, 2, 0}, layer);
  const std::vector<double> first = slice.current(), gradient = {4, -2};
  slice.apply(0, gradient, 0.5);
  slice.apply(2, gradient, 1);
  BOOST_TEST(slice.before(0) == first, boost::test_tools::per_element());
  BOOST_TEST(slice.before(2)[0] == first[0] - 2);
  BOOST_TEST(slice.current()[1] == first[1] + 1 + 2);
  BOOST_TEST(slice.updates_before(2) == 1);
  BOOST_TEST(slice.updates() == 2);
}

BOOST_AUTO_TEST_CASE(AWorkerContributesAStepOnce) {
  ReferenceSlice slice(ps::Slice{0, 0, 0, 2, 0}, std::vector<float>{3, -1});
  BOOST_TEST(slice.contribute(1, 5));
  BOOST_TEST(!slice.contribute(1, 5));
  BOOST_TEST(slice.has(1, 5));
  BOOST_TEST(!slice.has(0, 5));
}

BOOST_AUTO_TEST_SUITE_END()
