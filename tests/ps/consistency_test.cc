#include <boost/test/unit_test.hpp>
#include <limits>

#include <troupe/kernels/base/random.h>
#include <troupe/ps/param/consistency.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(consistency)

namespace {

VectorClock clock_of(std::vector<Step> steps) {
  VectorClock clock(steps.size());
  for (size_t worker = 0; worker < steps.size(); ++worker) clock.advance(static_cast<WorkerId>(worker), steps[worker]);
  return clock;
}

}  // namespace

BOOST_AUTO_TEST_CASE(TheGateOpensExactlyWhenThePolicyAllowsIt) {
  struct Case {
    Policy policy;
    Step step, version;
    std::vector<Step> clocks;
    bool may;
    int64_t lag;
  };
  const Case cases[] = {
      // sync looks at the version alone
      {{Mode::sync, 0}, 0, 0, {0, 0}, true, 0},
      {{Mode::sync, 0}, 1, 0, {1, 0}, false, 1},
      {{Mode::sync, 0}, 1, 1, {1, 1}, true, 0},
      {{Mode::sync, 0}, 1, 2, {2, 2}, true, 0},
      {{Mode::sync, 0}, 5, 4, {9, 9}, false, 1},
      // ssp looks at the slowest clock; s = 0 is as strict as sync
      {{Mode::ssp, 0}, 3, 0, {3, 3}, true, 0},
      {{Mode::ssp, 0}, 3, 9, {3, 2}, false, 1},
      {{Mode::ssp, 2}, 4, 0, {4, 2}, true, 2},
      {{Mode::ssp, 2}, 5, 0, {5, 2}, false, 3},
      {{Mode::ssp, 2}, 1, 0, {5, 2}, true, 0},
      {{Mode::ssp, 2}, 2, 0, {2, 0}, true, 2},
      {{Mode::ssp, 2}, 3, 0, {3, 0}, false, 3},
      // async never waits
      {{Mode::async, 0}, 100, 0, {100, 0}, true, 100},
      {{Mode::async, 0}, 0, 0, {100, 7}, true, 0},
      // the home of an all_reduce layer is read between steps
      {{Mode::all_reduce, 0}, 7, 0, {0, 0}, true, 0},
  };
  for (const auto& c : cases) {
    const VectorClock clock = clock_of(c.clocks);
    BOOST_TEST_CONTEXT(describe(c.policy) << " step " << c.step << " version " << c.version) {
      BOOST_TEST(may_read(c.policy, c.step, c.version, clock) == c.may);
      BOOST_TEST(lag(c.policy, c.step, c.version, clock) == c.lag);
    }
  }
}

BOOST_AUTO_TEST_CASE(AnEmptySlotHoldsNobodyBack) {
  VectorClock clock = clock_of({4, 1});
  BOOST_TEST(clock.slowest() == 1);
  clock.set_present(1, false);
  BOOST_TEST(clock.slowest() == 4);
  BOOST_TEST(may_read({Mode::ssp, 1}, 5, 0, clock));
  clock.set_present(1, true);
  BOOST_TEST(!may_read({Mode::ssp, 1}, 5, 0, clock));
}

BOOST_AUTO_TEST_CASE(WithoutWorkersEverythingMayBeRead) {
  VectorClock clock(1);
  clock.set_present(0, false);
  BOOST_TEST(clock.slowest() == std::numeric_limits<Step>::max());
  BOOST_TEST(may_read({Mode::ssp, 0}, 9, 0, clock));
  BOOST_TEST(lag({Mode::ssp, 0}, 9, 0, clock) == 0);
}

BOOST_AUTO_TEST_CASE(AClockNeverRunsBackwardsButCanBeRebased) {
  VectorClock clock = clock_of({5, 3});
  clock.advance(0, 2);
  BOOST_TEST(clock.at(0) == 5);
  clock.rebase(4);
  BOOST_TEST(clock.at(0) == 4);
  BOOST_TEST(clock.at(1) == 4);
}

BOOST_AUTO_TEST_CASE(TheSlowestIsTheMinimumOfThosePresentWhateverHappens) {
  Random random(3);
  VectorClock clock(5);
  for (int i = 0; i < 5000; ++i) {
    const auto worker = static_cast<WorkerId>(random.below(clock.size()));
    if (random.chance(0.01))
      clock.resize(3 + random.below(5));
    else if (random.chance(0.1))
      clock.set_present(worker, random.chance(0.7));
    else
      clock.advance(worker, clock.at(worker) + static_cast<Step>(random.below(3)));
    Step slowest = std::numeric_limits<Step>::max();
    for (WorkerId w = 0; w < clock.size(); ++w)
      if (clock.present(w)) slowest = std::min(slowest, clock.at(w));
    BOOST_REQUIRE(clock.slowest() == slowest);
  }
}

BOOST_AUTO_TEST_SUITE_END()
