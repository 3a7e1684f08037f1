#include <algorithm>
#include <boost/test/unit_test.hpp>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/random.h>
#include <troupe/ps/transport/internal/block_arena.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(block_arena)

BOOST_AUTO_TEST_CASE(WhatWasGivenBackIsTakenAgainFirst) {
  BlockArena arena(1024);
  BOOST_TEST(arena.take(100).value() == 0u);
  BOOST_TEST(arena.take(64).value() == 128u);
  arena.give_back(0, 100);
  BOOST_TEST(arena.take(128).value() == 0u);
}

BOOST_AUTO_TEST_CASE(FreeNeighboursGrowTogether) {
  BlockArena arena(256);
  for (uint64_t offset : {0, 64, 128, 192}) BOOST_TEST(arena.take(64).value() == offset);
  for (uint64_t offset : {64, 192, 0, 128}) arena.give_back(offset, 64);
  BOOST_TEST(arena.take(256).value() == 0u);
}

BOOST_AUTO_TEST_CASE(SmallBlocksThatAreHeldLeaveRoomForLargeOnes) {
  BlockArena arena(1 << 20);
  constexpr uint64_t kLarge = 600 << 10;
  for (int i = 0; i < 50; ++i) {
    const auto large = arena.take(kLarge);
    BOOST_REQUIRE(large);
    BOOST_REQUIRE(arena.take(1000));
    arena.give_back(*large, kLarge);
  }
}

BOOST_AUTO_TEST_CASE(ABlockThatNoGapHoldsIsRefused) {
  BlockArena arena(256);
  for (int i = 0; i < 4; ++i) arena.take(64);
  arena.give_back(0, 64);
  arena.give_back(128, 64);
  BOOST_TEST(arena.free_bytes() == 128u);
  BOOST_TEST(!arena.take(65));
}

BOOST_AUTO_TEST_CASE(SizesThatWouldOverflowAreRefused) {
  BlockArena arena(256);
  BOOST_TEST(!arena.take(UINT64_MAX));
  BOOST_TEST(!arena.take(UINT64_MAX - 63));
}

BOOST_AUTO_TEST_CASE(EvenEmptyBlocksHavePlacesOfTheirOwn) {
  BlockArena arena(128);
  BOOST_TEST(arena.take(0).value() != arena.take(0).value());
  BOOST_TEST(!arena.take(0));
}

BOOST_AUTO_TEST_CASE(NothingIsHandedOutTwice) {
  constexpr uint64_t kBytes = 1 << 20, kUnit = BlockArena::kAlignment;
  BlockArena arena(kBytes);
  Random random(1);
  std::vector<bool> used(kBytes / kUnit);
  std::vector<std::pair<uint64_t, uint64_t>> blocks;  // offset, bytes
  const auto mark = [&](const std::pair<uint64_t, uint64_t>& block, bool now) {
    int wrong = block.first % kUnit != 0;
    for (uint64_t at = block.first; at < block.first + block.second; at += kUnit) {
      wrong += used[at / kUnit] == now;
      used[at / kUnit] = now;
    }
    return wrong == 0;
  };
  for (int i = 0; i < 3000; ++i) {
    const uint64_t bytes = 1 + random.below(random.chance(0.2) ? 200'000 : 4000);
    if (const auto offset = random.chance(0.55) ? arena.take(bytes) : std::nullopt) {
      BOOST_REQUIRE(*offset + bytes <= kBytes);
      BOOST_REQUIRE(mark(blocks.emplace_back(*offset, bytes), true));
    } else if (!blocks.empty()) {
      std::swap(blocks[random.below(blocks.size())], blocks.back());
      BOOST_REQUIRE(mark(blocks.back(), false));
      arena.give_back(blocks.back().first, blocks.back().second);
      blocks.pop_back();
    }
  }
  for (const auto& block : blocks) arena.give_back(block.first, block.second);
  BOOST_TEST(arena.take(kBytes).value() == 0u);
}

BOOST_AUTO_TEST_CASE(GivingBackTwiceIsABug) {
  BlockArena arena(256);
  arena.take(64), arena.take(64);
  arena.give_back(0, 64);
  BOOST_CHECK_THROW(arena.give_back(0, 64), CheckFailure);
}

BOOST_AUTO_TEST_SUITE_END()
