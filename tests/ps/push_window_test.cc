#include <boost/test/unit_test.hpp>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/random.h>
#include <troupe/ps/param/push_window.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(push_window)

namespace {

constexpr Sequence kWidth = 64;

}  // namespace

BOOST_AUTO_TEST_CASE(TheHighWaterMarkFollowsWhatIsContiguous) {
  PushWindow window;
  for (Sequence s : {2, 3, 5}) window.take(s, kWidth);
  BOOST_TEST(window.high_water() == 0u);
  window.take(1, kWidth);
  BOOST_TEST(window.high_water() == 3u);
  BOOST_TEST(window.taken(3));
  BOOST_TEST(!window.taken(4));
  BOOST_TEST(window.taken(5));
}

BOOST_AUTO_TEST_CASE(WhatLiesItsWidthBelowTheHighestCountsAsTaken) {
  PushWindow window;
  window.take(64, kWidth);
  BOOST_TEST(window.high_water() == 0u);
  BOOST_TEST(!window.taken(1));
  window.take(66, kWidth);
  BOOST_TEST(window.high_water() == 2u);
  BOOST_TEST(window.taken(2));
  BOOST_TEST(!window.taken(3));
  BOOST_TEST(window.taken(64));
}

BOOST_AUTO_TEST_CASE(AWindowMayBeginAnywhere) {
  PushWindow window;
  window.take(5000, kWidth);
  for (Sequence s : {4998, 4999, 5001}) BOOST_TEST(!window.taken(s));
  for (Sequence s = 5001; s < 5100; ++s) window.take(s, kWidth);
  BOOST_TEST(window.high_water() >= 5099u - kWidth);
  BOOST_TEST(window.above().size() <= kWidth);
}

BOOST_AUTO_TEST_CASE(MemoryIsBoundedByTheWidthWhateverIsSent) {
  PushWindow window;
  Random random(7);
  for (int i = 0; i < 10000; ++i)
    if (const Sequence s = random.bits64() >> random.below(64); !window.taken(s)) window.take(s, kWidth);
  BOOST_TEST(window.above().size() <= kWidth);
}

BOOST_AUTO_TEST_CASE(AnyOrderWithinTheWindowTakesEachSequenceOnce) {
  Random random(4);
  PushWindow window;
  std::vector<bool> taken(2000, false);
  for (int i = 0; i < 100000; ++i) {
    const Sequence s = window.high_water() + random.below(40);
    if (s >= taken.size()) break;
    BOOST_REQUIRE(window.taken(s) == (s == 0 || taken[s]));
    if (!window.taken(s)) window.take(s, kWidth), taken[s] = true;
  }
  BOOST_TEST(window.high_water() > 1900u);
}

BOOST_AUTO_TEST_CASE(TakingTwiceIsABug) {
  PushWindow window;
  window.take(2, kWidth);
  BOOST_CHECK_THROW(window.take(2, kWidth), CheckFailure);
}

BOOST_AUTO_TEST_SUITE_END()
