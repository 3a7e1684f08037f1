#include <boost/test/unit_test.hpp>

#include <troupe/ps/metrics/histogram.h>

using troupe::ps::Histogram;

BOOST_AUTO_TEST_SUITE(metrics_histogram)

BOOST_AUTO_TEST_CASE(AnEmptyHistogramIsZero) {
  BOOST_TEST(Histogram().percentile(0.5) == 0);
  BOOST_TEST(Histogram().max() == 0);
  BOOST_TEST(Histogram().counts().empty());
}

BOOST_AUTO_TEST_CASE(PercentilesAreValuesThatWereSeen) {
  Histogram h;
  for (int i = 0; i < 90; ++i) h.add(1);
  for (int i = 0; i < 9; ++i) h.add(5);
  h.add(20);
  BOOST_TEST(h.total() == 100);
  BOOST_TEST(h.percentile(0.5) == 1);
  BOOST_TEST(h.percentile(0.9) == 1);
  BOOST_TEST(h.percentile(0.95) == 5);
  BOOST_TEST(h.max() == 20);
}

BOOST_AUTO_TEST_CASE(TheMedianOfTwoIsTheLower) {
  Histogram h;
  h.add(2);
  h.add(4);
  BOOST_TEST(h.percentile(0.5) == 2);
}

BOOST_AUTO_TEST_CASE(TheLastBinTakesTheRest) {
  Histogram h(4);
  h.add(1000000);
  BOOST_TEST(h.max() == 3);
  BOOST_TEST(h.counts() == (std::vector<int64_t>{0, 0, 0, 1}));
}

BOOST_AUTO_TEST_CASE(CountsOfSeveralServersAdd) {
  Histogram sum;
  sum.add(Histogram(std::vector<int64_t>{3, 1, 0}));
  sum.add(Histogram(std::vector<int64_t>{0, 0, 2}));
  BOOST_TEST(sum.counts() == (std::vector<int64_t>{3, 1, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
