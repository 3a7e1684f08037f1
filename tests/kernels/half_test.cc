#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>

#include <troupe/kernels/base/random.h>
#include <troupe/kernels/tensor/half.h>

using namespace troupe;

namespace {

// What the compiler makes of it: another implementation of the same standard.
float compiled(Half h) {
  _Float16 value;
  std::memcpy(&value, &h.bits, sizeof value);
  return static_cast<float>(value);
}
uint16_t compiled_bits(float f) {
  const auto value = static_cast<_Float16>(f);
  uint16_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(half)

BOOST_AUTO_TEST_CASE(EveryHalfIsTheFloatThatTheCompilerMakesOfIt) {
  int wrong = 0;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Half h{static_cast<uint16_t>(bits)};
    wrong += !same(to_float(h), compiled(h));
  }
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(FloatsRoundToTheHalfThatTheCompilerRoundsThemTo) {
  Random random(1);
  int wrong = 0;
  for (int i = 0; i < 2'000'000; ++i) {
    const float f = std::bit_cast<float>(random.bits32());
    wrong += std::isnan(f) ? !std::isnan(to_float(to_half(f))) : to_half(f).bits != compiled_bits(f);
  }
  // Around every half, its ties among them: where rounding goes one way or the other.
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float f = to_float(Half{static_cast<uint16_t>(bits)});
    const float next = to_float(Half{static_cast<uint16_t>(bits + 1)});
    const float tie = std::isinf(next) ? 65520 : (f + next) / 2;
    for (float x : {std::nextafter(tie, 0.f), tie, std::nextafter(tie, 1e9f)}) {
      wrong += to_half(x).bits != compiled_bits(x);
      wrong += to_half(-x).bits != compiled_bits(-x);
    }
  }
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(BFloat16RoundsToTheNearestWithTiesToEven) {
  Random random(2);
  int wrong = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const uint32_t bits = random.bits32();
    const float f = std::bit_cast<float>(bits);
    const float rounded = to_float(to_bfloat16(f));
    if (!std::isfinite(f)) {
      wrong += !same(f, rounded);
      continue;
    }
    const double below = static_cast<double>(std::bit_cast<float>(bits & 0xffff0000u));
    const float next = std::bit_cast<float>((bits & 0xffff0000u) + 0x10000u);
    const double above = std::isinf(next) ? std::copysign(0x1p128, static_cast<double>(f)) : static_cast<double>(next);
    const double to_below = std::abs(static_cast<double>(f) - below),
                 to_above = std::abs(above - static_cast<double>(f));
    const bool up = to_above < to_below || (to_above == to_below && (bits >> 16 & 1) == 1);
    wrong += !same(rounded, up ? next : static_cast<float>(below));
  }
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(ANaNWhoseLowBitsAloneAreSetStaysOne) {
  BOOST_TEST(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
  BOOST_TEST(std::isnan(to_float(to_half(std::bit_cast<float>(0x7f800001u)))));
}

BOOST_AUTO_TEST_SUITE_END()
