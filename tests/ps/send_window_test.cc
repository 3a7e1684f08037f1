// How much ZeroMQ holds at once.
#include <boost/test/unit_test.hpp>

#include <troupe/ps/transport/internal/send_window.h>

using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(send_window)

namespace {

constexpr size_t kWidth = 100;

std::shared_ptr<Bell> bell() { return std::make_shared<Bell>(std::make_shared<Wakeup>()); }

/// One byte at a time; how many it took.
size_t fill(SendWindow& window) {
  size_t taken = 0;
  for (; window.open(); ++taken) window.take(1);
  return taken;
}

}  // namespace

BOOST_AUTO_TEST_CASE(OneThatRanDryWhileSomethingWaitedDoubles) {
  SendWindow window(kWidth, bell());
  BOOST_TEST(fill(window) == kWidth);
  window.want();
  window.give_back(kWidth);
  BOOST_TEST(fill(window) == 2 * kWidth);
}

BOOST_AUTO_TEST_CASE(OneThatStillHeldSomethingWhenMoreCameKeepsItsWidth) {
  SendWindow window(kWidth, bell());
  fill(window);
  window.want();
  window.give_back(kWidth - 1);
  BOOST_TEST(fill(window) == kWidth - 1);
}

BOOST_AUTO_TEST_CASE(OneThatRanDryForWantOfMessagesKeepsItsWidth) {
  SendWindow window(kWidth, bell());
  fill(window);
  window.give_back(kWidth);
  BOOST_TEST(fill(window) == kWidth);
}

BOOST_AUTO_TEST_CASE(NoneGrowsForEver) {
  SendWindow window(kWidth, bell());
  for (int round = 0; round < 20; ++round) {
    const size_t taken = fill(window);
    BOOST_TEST(taken <= SendWindow::kMostTimes * kWidth);
    window.want();
    window.give_back(taken);
  }
}

BOOST_AUTO_TEST_CASE(WhoWantsItIsRungForOnceAsSoonAsItIsOpen) {
  const auto rung = bell();
  SendWindow window(kWidth, rung);
  fill(window);
  window.want();
  BOOST_TEST(!rung->answer());
  window.give_back(1);
  BOOST_TEST(rung->answer());
  window.give_back(1);  // which nobody waits for
  BOOST_TEST(!rung->answer());
  window.want();  // open as it is
  BOOST_TEST(rung->answer());
}

BOOST_AUTO_TEST_SUITE_END()
