#include <boost/test/unit_test.hpp>

#include <bit>
#include <cmath>
#include <limits>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

Tensor cast(const Tensor& x, DType dtype, int threads = 1) {
  Stream stream({}, threads);
  Tensor y = unwritten(x.shape(), dtype);
  cpu_ops().cast(stream, x, y);
  return y;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cast_ops)

BOOST_AUTO_TEST_CASE(RoundsToTheNearestThatTheDtypeHolds) {
  const Tensor x = exact(1, {1000}, DType::f32);
  for (const auto& [dtype, relative] : {std::pair(DType::f16, 0x1p-11), std::pair(DType::bf16, 0x1p-8)}) {
    const Tensor y = cast(x, dtype);
    for (int64_t i = 0; i < x.count(); ++i)
      BOOST_REQUIRE(std::abs(at(y, i) - at(x, i)) <= relative * std::abs(at(x, i)) + 0x1p-25);
  }
}

BOOST_AUTO_TEST_CASE(WideningIsExact) {
  const Tensor x = exact(1, {77}, DType::f32);
  for (DType narrow : {DType::f16, DType::bf16}) {
    const Tensor y = cast(x, narrow);
    for (DType wide : {DType::f32, DType::f64})
      for (int64_t i = 0; i < y.count(); ++i) BOOST_REQUIRE(at(cast(y, wide), i) == at(y, i));
    BOOST_TEST(same_bits(cast(cast(y, DType::f32), narrow), y));
  }
}

BOOST_AUTO_TEST_CASE(WhatIsTooLargeForHalfPrecisionBecomesInfinityAndNanStays) {
  const std::vector<float> values{70000, -70000, std::nanf(""), std::numeric_limits<float>::infinity()};
  const Tensor x = Tensor::from(std::span<const float>(values), {4});
  const Tensor y = cast(x, DType::f16);
  BOOST_TEST(at(y, 0) == std::numeric_limits<double>::infinity());
  BOOST_TEST(at(y, 1) == -std::numeric_limits<double>::infinity());
  BOOST_TEST(std::isnan(at(y, 2)));
  BOOST_TEST(std::isfinite(at(cast(x, DType::bf16), 0)));
}

BOOST_AUTO_TEST_CASE(EveryHalfWidensToItsNumberAndComesBackWhereverItLies) {
  Tensor halves = Tensor::empty({65536}, DType::f16);
  for (uint32_t bits = 0; bits < 65536; ++bits) halves.data<Half>()[bits] = {static_cast<uint16_t>(bits)};
  for (int64_t count : {1, 7, 8, 13, 65536}) {
    const Tensor last = halves.view(65536 - count, {count}), wide = cast(last, DType::f32),
                 back = cast(wide, DType::f16);
    int wrong = 0;
    for (int64_t i = 0; i < count; ++i) {
      const Half half = last.data<Half>()[i];
      const bool nan = std::isnan(to_float(half));
      wrong += nan ? !std::isnan(at(wide, i)) || !std::isnan(at(back, i))
                   : at(wide, i) != to_float(half) || back.data<Half>()[i].bits != half.bits;
    }
    BOOST_TEST(wrong == 0, count);
  }
}

BOOST_AUTO_TEST_CASE(AnyFloatRoundsToHalfAsTheOneFunctionSays) {
  Random random(1);
  Tensor x = Tensor::empty({100003});
  for (float& value : x.span<float>()) value = std::bit_cast<float>(random.bits32());
  const Tensor y = cast(x, DType::f16);
  int wrong = 0;
  for (int64_t i = 0; i < x.count(); ++i)
    if (const float value = x.data<float>()[i]; !std::isnan(value))
      wrong += y.data<Half>()[i].bits != to_half(value).bits;
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(TheNumberOfThreadsDoesNotChangeTheBits) {
  const Tensor x = exact(1, {100000}, DType::f32);
  BOOST_TEST(same_bits(cast(x, DType::f16, 1), cast(x, DType::f16, 2)));
  BOOST_TEST(same_bits(cast(x, DType::bf16, 1), cast(x, DType::bf16, 2)));
}

BOOST_AUTO_TEST_CASE(OtherCountsAndOtherKindsOfNumbersAreBugs) {
  Stream stream;
  Tensor three = Tensor::empty({3}), ids = Tensor::empty({4}, DType::i32);
  const Tensor x = Tensor::empty({4});
  BOOST_TEST(failure_without("[3]", [&] { cpu_ops().cast(stream, x, three); }) == "");
  BOOST_TEST(failure_without("I32", [&] { cpu_ops().cast(stream, x, ids); }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
