// How long a thread looks for what comes before it sleeps.
#include <boost/test/unit_test.hpp>

#include <troupe/kernels/base/lookout.h>

using namespace troupe;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(lookout)

namespace {

constexpr auto kLimit = 100us;
constexpr unsigned kCores = 2;

/// Of `times`, in how many it looked at all; nothing ever comes.
int looks(Lookout& lookout, int times) {
  int looked = 0;
  for (int i = 0; i < times; ++i) {
    bool asked = false;
    BOOST_TEST(!lookout.look([&] { return asked = true, false; }));
    looked += asked;
  }
  return looked;
}

}  // namespace

BOOST_AUTO_TEST_CASE(WhatIsThereIsFoundAtOnce) {
  Lookout lookout(kLimit, kCores);
  int asked = 0;
  BOOST_TEST(lookout.look([&] { return ++asked > 0; }));
  BOOST_TEST(asked == 1);
}

BOOST_AUTO_TEST_CASE(WhatComesWhileItLooksIsFound) {
  Lookout lookout(1s, kCores);
  // So seldom that the thread is away between two looks does it take more than a few attempts.
  bool found = false;
  for (int attempt = 0; attempt < 10'000 && !found; ++attempt) {
    int asked = 0;
    found = lookout.look([&] { return ++asked == 3; });
  }
  BOOST_TEST(found);
}

BOOST_AUTO_TEST_CASE(WhereNothingComesItLooksEverMoreSeldom) {
  Lookout lookout(kLimit, kCores);
  BOOST_TEST(looks(lookout, 1) == 1);
  BOOST_TEST(looks(lookout, 1) == 0);
  BOOST_TEST(looks(lookout, 1) == 1);
  BOOST_TEST(looks(lookout, 1000) < 1000 / 50 + 6);
}

BOOST_AUTO_TEST_CASE(ItNeverGivesUpForGood) {
  Lookout lookout(kLimit, kCores);
  looks(lookout, 1000);
  BOOST_TEST(looks(lookout, 64) == 1);
}

BOOST_AUTO_TEST_CASE(OnceSomethingCameItLooksAgainEachTime) {
  Lookout lookout(kLimit, kCores);
  looks(lookout, 1000);
  while (!lookout.look([] { return true; })) {
  }
  for (int i = 0; i < 3; ++i) BOOST_TEST(lookout.look([] { return true; }));
}

BOOST_AUTO_TEST_CASE(OnOneCoreItDoesNotLook) {
  Lookout lookout(kLimit, 1);
  BOOST_TEST(looks(lookout, 100) == 0);
}

BOOST_AUTO_TEST_CASE(WithoutTimeItDoesNotLook) {
  Lookout lookout(0us, kCores);
  BOOST_TEST(looks(lookout, 100) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
