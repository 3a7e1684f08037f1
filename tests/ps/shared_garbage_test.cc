// The other side of shared memory may write anything at any time: it is refused, and costs nobody's life.
#include <boost/test/unit_test.hpp>

#include <tests/support/shared_mail.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;
using shared::Control;

BOOST_AUTO_TEST_SUITE(shared_garbage)

namespace {

constexpr uint64_t kArena = 1 << 16;

/// Two ends and a third mapping, through which the test writes what an honest end never would.
struct Tampered {
  SharedEnds ends{kArena};
  std::shared_ptr<SharedMemory> memory = SharedMemory::open(ends.sender->offer(), 1 << 20).value();
  Control& control = *reinterpret_cast<Control*>(memory->data());
  shared::Entry& entry = control.ring[0];
  std::byte* arena = memory->data() + sizeof(Control);

  /// What the receiver says to a message that was changed after it was sent.
  std::string refusal() {
    Received got;
    const auto result = ends.poll(got);
    return result ? "" : result.error().message;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(AMessageThatNobodyChangedIsTaken) {
  Tampered t;
  t.ends.send(random_bytes(1, 10), {u8(random_bytes(2, 100))});
  BOOST_TEST(t.refusal() == "");
}

#define REFUSED(name, change, text)                                       \
  BOOST_AUTO_TEST_CASE(name) {                                            \
    Tampered t;                                                           \
    t.ends.send(random_bytes(1, 10), {u8(random_bytes(2, 100))});         \
    change;                                                               \
    BOOST_TEST(t.refusal().find(text) != std::string::npos, t.refusal()); \
  }

REFUSED(ABlockNumberBeyondTheTableIsRefused, t.entry.block = shared::kBlocks, "outside of its arena")
REFUSED(ABlockBehindTheArenaIsRefused, t.entry.offset = kArena + 64, "outside of its arena")
REFUSED(ABlockThatReachesBehindTheArenaIsRefused, t.entry.bytes = kArena + 1, "outside of its arena")
REFUSED(ABlockWhoseEndOverflowsIsRefused, (t.entry.offset = kArena, t.entry.bytes = UINT64_MAX), "outside of its arena")
REFUSED(AnUnalignedBlockIsRefused, t.entry.offset = 8, "outside of its arena")
REFUSED(MorePayloadsThanTheBlockHoldsAreRefused, t.entry.payloads = UINT32_MAX, "too short for its payloads")
REFUSED(AHeadLongerThanTheBlockIsRefused, t.entry.head_bytes = 1000, "too short for its parts")
REFUSED(AHeadWhoseEndOverflowsIsRefused, t.entry.head_bytes = UINT64_MAX - 4, "too short for its parts")
REFUSED(APayloadLongerThanTheBlockIsRefused, t.arena[1] = std::byte{1}, "too short for its parts")
REFUSED(APayloadWhoseEndOverflowsIsRefused, std::memset(t.arena, 0xff, 8), "too short for its parts")

// Each would cost the receiver a tensor, though it holds nothing.
BOOST_AUTO_TEST_CASE(MorePayloadsThanAMessageMayHaveAreRefused) {
  constexpr uint64_t kRoom = 1 << 21;  // of which so many descriptions are half
  SharedEnds ends(kRoom);
  BOOST_REQUIRE(ends.send({}, {u8(random_bytes(2, kRoom - 64))}));
  const auto memory = SharedMemory::open(ends.sender->offer(), 2 * kRoom).value();
  reinterpret_cast<Control*>(memory->data())->ring[0].payloads = shared::kMaxPayloads + 1;
  std::memset(memory->data() + sizeof(Control), 0, kRoom);
  Received got;
  const auto result = ends.poll(got);
  BOOST_TEST_REQUIRE(!result);
  BOOST_TEST(result.error().message.find("too many payloads") != std::string::npos, result.error().message);
}

BOOST_AUTO_TEST_CASE(ATurnOutOfOrderIsNoMessage) {
  Tampered t;
  t.ends.send(random_bytes(1, 10));
  t.entry.turn = 2;
  BOOST_TEST(!t.ends.receiver->waiting());
}

BOOST_AUTO_TEST_CASE(RandomEntriesAndBlocksNeverReachBeyondTheArena) {
  Tampered t;
  Random random(1);
  const auto any = [&]() -> uint64_t {
    switch (random.below(4)) {
      case 0: return random.bits64();
      case 1: return random.below(2 * kArena);
      case 2: return random.below(64) * 64;
      default: return random.below(16);
    }
  };
  int taken = 0, refused = 0;
  uint64_t turn = 0;
  std::vector<Tensor> held;
  for (int i = 0; i < 20'000; ++i) {
    shared::Entry& entry = t.control.ring[turn % shared::kBlocks];
    entry.offset = any(), entry.bytes = any(), entry.head_bytes = any();
    entry.block = static_cast<uint32_t>(any()), entry.payloads = static_cast<uint32_t>(random.below(4));
    for (int k = 0; k < 4; ++k) {
      const uint64_t length = any();
      std::memcpy(t.arena + random.below(64) * 64, &length, 8);
    }
    entry.turn = turn + 1;
    Received got;
    if (!t.ends.poll(got)) {
      ++refused;
      continue;  // the same turn, once more
    }
    ++taken, ++turn;
    for (Tensor& payload : got.payloads) {
      for (size_t at = 0; at < payload.bytes(); at += 64) (void)static_cast<volatile std::byte*>(payload.raw())[at];
      held.push_back(std::move(payload));
    }
    if (held.size() > 50) held.clear();
  }
  BOOST_TEST(taken > 100);
  BOOST_TEST(refused > 100);
}

BOOST_AUTO_TEST_CASE(BlocksThatTheReceiverCannotHaveGivenBackStayTaken) {
  Tampered t;
  const Bytes first = random_bytes(1, 100), second = random_bytes(2, 100);
  t.ends.send({}, {u8(first)});
  Received got = t.ends.receive();
  for (auto& word : t.control.freed) word = ~uint64_t{1};  // all that it never had; block 0 is the one it has
  t.ends.send({}, {u8(second)});
  BOOST_TEST((bytes_of(got.payloads[0]) == first));
  BOOST_TEST((bytes_of(t.ends.receive().payloads[0]) == second));
  got = {};
  BOOST_TEST(t.ends.sender->held_bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(ABlockGivenBackTwiceIsFreeOnce) {
  Tampered t;
  const Tensor most = Tensor::zeros({kArena / 4 * 3}, DType::u8);
  BOOST_TEST(t.ends.send({}, {most}));
  t.ends.receive();
  for (int i = 0; i < 3; ++i) {
    t.control.freed[0] = ~uint64_t{0};
    BOOST_TEST(t.ends.sender->held_bytes() == 0u);
  }
  BOOST_TEST(t.ends.send({}, {most}));
  BOOST_TEST(!t.ends.send({}, {most}));
}

BOOST_AUTO_TEST_SUITE_END()
