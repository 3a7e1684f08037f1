#include <boost/test/unit_test.hpp>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();

Tensor ones(int64_t n, DType dtype = DType::f32) {
  Stream stream;
  Tensor t = Tensor::empty({n}, dtype);
  op.fill(stream, 1, t);
  return t;
}

Tensor dropped(const Tensor& x, double p, uint64_t seed, int64_t first, int threads = 1) {
  Stream stream({}, threads);
  Tensor y = unwritten(x.shape(), x.dtype());
  op.dropout(stream, x, p, seed, first, y);
  return y;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dropout)

BOOST_AUTO_TEST_CASE(WhatIsKeptDependsOnSeedAndElementAsTheContractSays) {
  constexpr uint64_t kSeed = 0x123456789ABCDEF0;
  constexpr double kP = 0.3;
  const int64_t first =
      (int64_t{1} << 34) + 3;  // beyond 32 bits of block number, and not at the start of a block
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor y = dropped(ones(1003, dtype), kP, kSeed, first);
    for (int64_t i = 0; i < y.count(); ++i) {
      const auto block = static_cast<uint64_t>(first + i) / 4;
      const uint32_t word =
          philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                     {static_cast<uint32_t>(kSeed),
                      static_cast<uint32_t>(kSeed >> 32)})[static_cast<size_t>((first + i) % 4)];
      const bool keep = word >= static_cast<uint32_t>(std::floor(kP * 0x1p32));
      BOOST_REQUIRE(std::abs(at(y, i) - (keep ? 1 / 0.7 : 0)) < 1e-7);
    }
  }
}

BOOST_AUTO_TEST_CASE(APartDrawsWhatTheWholeWould) {
  const Tensor x = exact(1, {5000}, DType::f32), whole = dropped(x, 0.5, 7, 0);
  for (int64_t begin : {0, 1, 127, 128, 1022})
    BOOST_TEST(same_bits(dropped(x.view(begin, {901}), 0.5, 7, begin), whole.view(begin, {901})), begin);
}

BOOST_AUTO_TEST_CASE(ThreadsDoNotChangeTheNumbers) {
  const Tensor x = exact(1, {100003}, DType::f32);
  BOOST_TEST(same_bits(dropped(x, 0.5, 7, 5, 1), dropped(x, 0.5, 7, 5, 2)));
}

BOOST_AUTO_TEST_CASE(TheMeanIsKept) {
  for (double p : {0.1, 0.5, 0.9}) {
    const Tensor y = dropped(ones(100000), p, 11, 0);
    BOOST_TEST(std::abs(dot(y, ones(100000)) / 100000 - 1) < 0.03, p);
  }
}

BOOST_AUTO_TEST_CASE(ProbabilityZeroKeepsAll) {
  const Tensor x = exact(1, {77}, DType::f32);
  BOOST_TEST(same_bits(dropped(x, 0, 3, 0), x));
}

BOOST_AUTO_TEST_CASE(SeedsDiffer) {
  BOOST_TEST(!same_bits(dropped(ones(64), 0.5, 1, 0), dropped(ones(64), 0.5, 2, 0)));
}

BOOST_AUTO_TEST_CASE(TheGradientIsTheSameDropout) {
  Tensor x = normal(1, {3, 37}), dy = normal(2, {3, 37});
  const Tensor probed = finite_differences(x, [&] { return dot(dropped(x, 0.4, 9, 0), dy); });
  BOOST_TEST(gradient_difference(dropped(dy, 0.4, 9, 0), probed) == "");
}

BOOST_AUTO_TEST_CASE(ItMayWorkInPlaceAndOnNothing) {
  Stream stream;
  Tensor x = exact(1, {333}, DType::f32);
  const Tensor y = dropped(x, 0.5, 1, 0);
  op.dropout(stream, x, 0.5, 1, 0, x);
  BOOST_TEST(same_bits(x, y));
  BOOST_TEST(dropped(Tensor::empty({0}), 0.5, 1, 0).count() == 0);
}

BOOST_AUTO_TEST_CASE(ProbabilitiesThatMakeNoSenseFailWithTheirValue) {
  BOOST_TEST(failure_without("p is 1", [] { dropped(ones(3), 1, 1, 0); }) == "");
  BOOST_TEST(failure_without("p is -0.5", [] { dropped(ones(3), -0.5, 1, 0); }) == "");
  BOOST_TEST(failure_without("first is -1", [] { dropped(ones(3), 0.5, 1, -1); }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
