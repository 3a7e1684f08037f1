// Sender and receiver of one process, each with its own mapping.
#include <boost/test/unit_test.hpp>
#include <thread>

#include <tests/support/shared_mail.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(shared_channel)

namespace {

constexpr uint64_t kArena = 1 << 20;

Bytes number(uint64_t n) {
  Bytes bytes(8);
  std::memcpy(bytes.data(), &n, 8);
  return bytes;
}

uint64_t number(const Bytes& bytes) {
  uint64_t n = 0;
  BOOST_REQUIRE(bytes.size() == 8u);
  std::memcpy(&n, bytes.data(), 8);
  return n;
}

/// Of the mapping that the byte lies in, as the system writes them: "rw-p".
std::string permissions_at(const std::byte* at) {
  std::ifstream maps("/proc/self/maps");
  uintptr_t begin = 0, end = 0;
  std::string permissions, rest;
  for (char dash = 0; maps >> std::hex >> begin >> dash >> end >> permissions && std::getline(maps, rest);)
    if (const auto address = reinterpret_cast<uintptr_t>(at); begin <= address && address < end) return permissions;
  return "";
}

}  // namespace

BOOST_AUTO_TEST_CASE(HeadAndPayloadsComeOutAsTheyWentIn) {
  SharedEnds ends;
  const Bytes head = random_bytes(1, 333), a = random_bytes(2, 1000), b = random_bytes(3, 77);
  BOOST_TEST(ends.send(head, {u8(a), u8({}), u8(b)}));
  const Received got = ends.receive();
  BOOST_TEST((got.head == head));
  BOOST_REQUIRE(got.payloads.size() == 3u);
  BOOST_TEST((bytes_of(got.payloads[0]) == a));
  BOOST_TEST(got.payloads[1].bytes() == 0u);
  BOOST_TEST((bytes_of(got.payloads[2]) == b));
}

BOOST_AUTO_TEST_CASE(PayloadsAreAlignedTensorsOfBytesInSharedMemory) {
  SharedEnds ends;
  ends.send(random_bytes(1, 5), {u8(random_bytes(2, 100)), u8(random_bytes(3, 100))});
  for (const Tensor& payload : ends.receive().payloads) {
    BOOST_TEST(reinterpret_cast<uintptr_t>(payload.raw()) % Buffer::kAlignment == 0u);
    BOOST_TEST((payload.dtype() == DType::u8));
  }
}

BOOST_AUTO_TEST_CASE(ATensorOfAnyTypeTravelsAsItsBytes) {
  SharedEnds ends;
  const std::vector<float> values = {1, 2, 3};
  ends.send({}, {Tensor::from(std::span<const float>(values), {3}).view(1, {2})});
  const Received got = ends.receive();
  BOOST_TEST(got.payloads[0].bytes() == 8u);
  BOOST_TEST(std::memcmp(got.payloads[0].raw(), values.data() + 1, 8) == 0);
}

BOOST_AUTO_TEST_CASE(MessagesKeepTheirOrderAroundTheRing) {
  SharedEnds ends;
  uint64_t sent = 0, received = 0;
  Random random(1);
  while (received < 3 * shared::kBlocks) {
    for (uint64_t i = random.below(100); i-- > 0;) BOOST_REQUIRE(ends.send(number(sent++)));
    for (uint64_t i = random.below(sent - received + 1); i-- > 0;)
      BOOST_REQUIRE(number(ends.receive().head) == received++);
  }
}

BOOST_AUTO_TEST_CASE(NoMessageIsNoMessage) {
  SharedEnds ends;
  Received none;
  BOOST_TEST(!ends.receiver->waiting());
  BOOST_TEST(!ends.poll(none).value());
  ends.send({});
  BOOST_TEST(ends.receiver->waiting());
  BOOST_TEST(ends.receive().head.empty());
  BOOST_TEST(!ends.poll(none).value());
}

BOOST_AUTO_TEST_CASE(AFullArenaRefusesAndTakesAgainWhenRoomIsBack) {
  SharedEnds ends(kArena);
  const Tensor quarter = Tensor::zeros({kArena / 4 - 64}, DType::u8);
  for (int i = 0; i < 4; ++i) BOOST_TEST(ends.send({}, {quarter}));
  BOOST_TEST(!ends.send({}, {quarter}));
  const Received held = ends.receive();
  BOOST_TEST(!ends.send({}, {quarter}));
  ends.receive();
  BOOST_TEST(ends.send({}, {quarter}));
  BOOST_TEST(!ends.send({}, {quarter}));
}

BOOST_AUTO_TEST_CASE(WhatIsLargerThanTheArenaIsRefused) {
  SharedEnds ends(kArena);
  BOOST_TEST(!ends.send({}, {Tensor::zeros({kArena}, DType::u8)}));
  BOOST_TEST(ends.send({}, {Tensor::zeros({kArena - 64}, DType::u8)}));
  BOOST_TEST(ends.receive().payloads[0].bytes() == kArena - 64);
}

BOOST_AUTO_TEST_CASE(MoreMessagesThanTheRingHoldsAreRefused) {
  SharedEnds ends;
  for (uint32_t i = 0; i < shared::kBlocks; ++i) BOOST_REQUIRE(ends.send(number(i)));
  BOOST_TEST(!ends.send(number(1)));
  BOOST_TEST(number(ends.receive().head) == 0u);
  BOOST_TEST(ends.send(number(shared::kBlocks)));
  for (uint32_t i = 1; i <= shared::kBlocks; ++i) BOOST_REQUIRE(number(ends.receive().head) == i);
}

BOOST_AUTO_TEST_CASE(HeldTensorsKeepTheirBytesWhileOthersComeAndGo) {
  SharedEnds ends(kArena / 4);
  Random random(7);
  std::vector<std::pair<Bytes, Tensor>> held;
  for (uint64_t i = 0; i < 1000; ++i) {
    const Bytes bytes = random_bytes(i, random.below(random.chance(0.1) ? kArena / 20 : 2000));
    if (ends.send({}, {u8(bytes)})) held.emplace_back(bytes, ends.receive().payloads[0]);
    while (held.size() > 20 || (!held.empty() && random.chance(0.5))) {
      std::swap(held[random.below(held.size())], held.back());
      BOOST_REQUIRE((bytes_of(held.back().second) == held.back().first));
      held.pop_back();
    }
  }
  held.clear();
  BOOST_TEST(ends.sender->held_bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(ABlockIsGivenBackWithTheLastOfItsTensors) {
  SharedEnds ends;
  ends.send({}, {u8(random_bytes(1, 100)), u8(random_bytes(2, 100))});
  Received got = ends.receive();
  Tensor part = got.payloads[1].view(50, {10});
  got.payloads.clear();
  BOOST_TEST(ends.sender->held_bytes() > 0u);
  part = {};
  BOOST_TEST(ends.sender->held_bytes() == 0u);
}

// So that whoever keeps it copies it, and the sender gets its room back.
BOOST_AUTO_TEST_CASE(WhatCameInIsOnlyRead) {
  SharedEnds ends;
  ends.send({}, {u8(random_bytes(1, 100'000))});
  const Received got = ends.receive();
  BOOST_TEST(!got.payloads[0].buffer()->writable());
  BOOST_TEST(permissions_at(got.payloads[0].raw() + 50'000) == "r--s");
}

BOOST_AUTO_TEST_CASE(TensorsOutliveBothEnds) {
  const Bytes bytes = random_bytes(1, 5000);
  Tensor kept;
  {
    SharedEnds ends;
    ends.send({}, {u8(bytes)});
    kept = ends.receive().payloads[0];
  }
  BOOST_TEST((bytes_of(kept) == bytes));
  BOOST_TEST(mapped_segments() == 1);
  kept = {};
  BOOST_TEST(mapped_segments() == 0);
}

BOOST_AUTO_TEST_CASE(ThreadsSendAtTheSameTimeAndEachKeepsItsOrder) {
  constexpr uint64_t kThreads = 4, kEach = 1000;
  SharedEnds ends(kArena);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&ends, t] {
      Random random(t);
      for (uint64_t i = 0; i < kEach; ++i) {
        const Tensor payload = u8(random_bytes(t * kEach + i, random.below(500)));
        while (!ends.send(number(t * kEach + i), {payload})) std::this_thread::yield();
      }
    });
  std::vector<uint64_t> next(kThreads);
  for (uint64_t received = 0; received < kThreads * kEach;) {
    Received got;
    if (!ends.poll(got).value()) {
      std::this_thread::yield();
      continue;
    }
    ++received;
    const uint64_t n = number(got.head), t = n / kEach;
    BOOST_REQUIRE(n == t * kEach + next[t]++);
    BOOST_REQUIRE((bytes_of(got.payloads[0]) == random_bytes(n, got.payloads[0].bytes())));
  }
  for (std::thread& thread : threads) thread.join();
}

BOOST_AUTO_TEST_SUITE_END()
