#include <boost/test/unit_test.hpp>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/random.h>
#include <troupe/ps/param/push_window.h>

using namespace troupe;
using namespace troupe::ps;
using Place = PushWindow::Place;

BOOST_AUTO_TEST_SUITE(push_window)

namespace {

constexpr Sequence kWidth = 64;

}  // namespace

BOOST_AUTO_TEST_CASE(TheHighWaterMarkFollowsWhatIsContiguous) {
  PushWindow window;
  for (Sequence s : {2, 3, 5}) window.take(s);
  BOOST_TEST(window.high_water() == 0u);
  window.take(1);
  BOOST_TEST(window.high_water() == 3u);
  BOOST_TEST((window.place(3, kWidth) == Place::taken));
  BOOST_TEST((window.place(4, kWidth) == Place::fresh));
  BOOST_TEST((window.place(5, kWidth) == Place::taken));
}

BOOST_AUTO_TEST_CASE(TheWindowEndsItsWidthAboveTheMark) {
  PushWindow window;
  BOOST_TEST((window.place(64, kWidth) == Place::fresh));
  BOOST_TEST((window.place(65, kWidth) == Place::beyond));
  BOOST_TEST((window.place(~Sequence{0}, kWidth) == Place::beyond));
  for (Sequence s = 64; s > 0; --s) window.take(s);
  BOOST_TEST(window.high_water() == 64u);
  BOOST_TEST((window.place(128, kWidth) == Place::fresh));
  BOOST_TEST((window.place(129, kWidth) == Place::beyond));
}

BOOST_AUTO_TEST_CASE(AnyOrderWithinTheWindowTakesEachSequenceOnce) {
  Random random(4);
  PushWindow window;
  std::vector<bool> taken(2000, false);
  for (int i = 0; i < 100000; ++i) {
    const Sequence s = window.high_water() + random.below(40);
    if (s >= taken.size()) break;
    const auto place = window.place(s, kWidth);
    BOOST_REQUIRE((place == (s == 0 || taken[s] ? Place::taken : Place::fresh)));
    if (place == Place::fresh) window.take(s), taken[s] = true;
  }
  BOOST_TEST(window.high_water() > 1900u);
}

BOOST_AUTO_TEST_CASE(TakingTwiceIsABug) {
  PushWindow window;
  window.take(2);
  BOOST_CHECK_THROW(window.take(2), CheckFailure);
}

BOOST_AUTO_TEST_SUITE_END()
