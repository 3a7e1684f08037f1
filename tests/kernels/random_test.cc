#include <boost/test/unit_test.hpp>

#include <troupe/kernels/base/random.h>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(random_numbers)

// Known answers of Random123's kat_vectors for philox4x32-10.
BOOST_AUTO_TEST_CASE(PhiloxGivesThePublishedKnownAnswers) {
  const auto zero = philox4x32({0, 0, 0, 0}, {0, 0});
  BOOST_TEST(zero[0] == 0x6627e8d5u);
  BOOST_TEST(zero[1] == 0xe169c58du);
  BOOST_TEST(zero[2] == 0xbc57ac4cu);
  BOOST_TEST(zero[3] == 0x9b00dbd8u);
  const auto pi = philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0});
  BOOST_TEST(pi[0] == 0xd16cfe09u);
  BOOST_TEST(pi[1] == 0x94fdccebu);
  BOOST_TEST(pi[2] == 0x5001e420u);
  BOOST_TEST(pi[3] == 0x24126ea1u);
}

BOOST_AUTO_TEST_CASE(SeedsOfDifferentPurposesDiffer) {
  BOOST_TEST(derive_seed(1, "init", 0) != derive_seed(1, "init", 1));
  BOOST_TEST(derive_seed(1, "init", 0) != derive_seed(1, "dropout", 0));
  BOOST_TEST(derive_seed(1, "init", 0) != derive_seed(2, "init", 0));
  BOOST_TEST(derive_seed(1, "init", 0) == derive_seed(1, "init", 0));
}

BOOST_AUTO_TEST_CASE(NormalNumbersHaveMeanZeroAndVarianceOne) {
  Random random(7);
  double sum = 0, squares = 0;
  constexpr int n = 100000;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  BOOST_TEST(std::abs(sum / n) < 0.02);
  BOOST_TEST(std::abs(squares / n - 1) < 0.02);
}

BOOST_AUTO_TEST_SUITE_END()
