#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/data/sampler.h>

using troupe::ps::Sampler;

namespace {

std::vector<uint32_t> epoch_of(const Sampler& sampler, int64_t epoch) {
  std::vector<uint32_t> out(static_cast<size_t>(sampler.size()));
  sampler.indices(epoch, 0, out);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sampler)

BOOST_AUTO_TEST_CASE(AnEpochVisitsEverySampleOnce) {
  for (const int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 100, 1000, 1024, 1025, 60000}) {
    auto order = epoch_of(Sampler(n, 42), 3);
    std::sort(order.begin(), order.end());
    std::vector<uint32_t> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0u);
    BOOST_TEST((order == all), "n = " << n);
  }
}

BOOST_AUTO_TEST_CASE(RangesTakenInAnyOrderEqualTheWholeEpoch) {
  const Sampler sampler(1003, 1);
  const auto whole = epoch_of(sampler, 5);
  for (int64_t begin = 1003 - 17; begin >= 0; begin -= 17) {
    std::vector<uint32_t> part(17);
    sampler.indices(5, begin, part);
    BOOST_TEST(std::equal(part.begin(), part.end(), whole.begin() + begin));
  }
}

BOOST_AUTO_TEST_CASE(EpochsAndSeedsGiveDifferentOrders) {
  BOOST_TEST(epoch_of(Sampler(1000, 1), 0) != epoch_of(Sampler(1000, 1), 1));
  BOOST_TEST(epoch_of(Sampler(1000, 1), 0) != epoch_of(Sampler(1000, 2), 0));
  BOOST_TEST(epoch_of(Sampler(1000, 1), 7) == epoch_of(Sampler(1000, 1), 7));
}

BOOST_AUTO_TEST_CASE(WithoutShuffleEveryEpochIsInOrder) {
  std::vector<uint32_t> out(3);
  Sampler(10, 1, false).indices(4, 6, out);
  BOOST_TEST(out == (std::vector<uint32_t>{6, 7, 8}), boost::test_tools::per_element());
}

// Over 1,000 epochs of 10 samples each pair (position, sample) is expected 1,000 / 10 times. The chi-square
// statistic of the 100 cells has 81 degrees of freedom: 81 on average, above 134 once in 10^4.
BOOST_AUTO_TEST_CASE(EverySampleIsAsLikelyAtEveryPosition) {
  const Sampler sampler(10, 2024);
  std::vector<int> seen(100);
  for (int64_t epoch = 0; epoch < 1000; ++epoch) {
    const auto order = epoch_of(sampler, epoch);
    for (size_t i = 0; i < 10; ++i) ++seen[i * 10 + order[i]];
  }
  double chi_square = 0;
  for (const int count : seen) chi_square += (count - 100.0) * (count - 100.0) / 100.0;
  BOOST_TEST(chi_square < 134);
}

// Neighbours in the order should be no nearer in the data set than chance has it (a third of n on average).
BOOST_AUTO_TEST_CASE(NeighboursInTheOrderAreFarApartInTheDataSet) {
  const auto order = epoch_of(Sampler(60000, 9), 0);
  double sum = 0;
  for (size_t i = 1; i < order.size(); ++i) sum += std::abs(static_cast<double>(order[i]) - order[i - 1]);
  BOOST_TEST(std::abs(sum / 59999 / 20000 - 1) < 0.02);
}

BOOST_AUTO_TEST_CASE(ARangeBeyondTheEpochIsABug) {
  std::vector<uint32_t> out(2);
  BOOST_CHECK_THROW(Sampler(10, 1).indices(0, 9, out), troupe::CheckFailure);
}

BOOST_AUTO_TEST_SUITE_END()
