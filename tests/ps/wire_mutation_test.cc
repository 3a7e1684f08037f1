#include <boost/test/unit_test.hpp>

#include <tests/support/forged_frames.h>
#include <tests/support/random_message.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::wire;
using test::RandomMessages;

BOOST_AUTO_TEST_SUITE(wire_mutation)

namespace {

// Bits flipped, bytes and whole words written over, and words (seldom bytes: a head of a broken length is refused at
// once) inserted, removed and cut off.
void damage(std::vector<std::byte>& bytes, Random& random) {
  if (bytes.size() < 8) return;
  const size_t at = random.below(bytes.size()), word = at / 8 * 8;
  const size_t unit = random.chance(0.1) ? 1 : 8;
  const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(unit == 1 ? at : word);
  const auto room = static_cast<std::ptrdiff_t>(std::min<size_t>(unit, static_cast<size_t>(bytes.end() - place)));
  switch (random.below(7)) {
    case 0:
    case 1: bytes[at] ^= std::byte(1 << random.below(8)); return;
    case 2: bytes[at] = std::byte(random.below(256)); return;
    case 3: std::fill(place, place + room, std::byte(random.below(2) * 255)); return;
    case 4: bytes.insert(place, unit, std::byte(random.below(256))); return;
    case 5: bytes.erase(place, place + room); return;
    default: bytes.erase(place, bytes.end());
  }
}

void damage_payloads(std::vector<Tensor>& payloads, Random& random) {
  const auto at = payloads.begin() + static_cast<std::ptrdiff_t>(payloads.empty() ? 0 : random.below(payloads.size()));
  if (payloads.empty() || random.chance(0.3))
    payloads.insert(at, Tensor::zeros({8}, DType::u8));
  else if (random.chance(0.5))
    payloads.erase(at);
  else
    *at = at->view(0, {at->count() / 2});
}

// What was taken can be said again, and is taken again.
void require_sound(const Envelope& envelope) {
  const Frames again = encode(envelope, 1);
  const auto got = decode(again.head, again.payloads, {});
  BOOST_REQUIRE_MESSAGE(got, got.error().message);
  BOOST_REQUIRE(test::same(*got, envelope));
}

}  // namespace

// Their checksums are made right, so that what lies behind is tried. Under sanitizers this finds reads and writes that
// go too far, too.
BOOST_AUTO_TEST_CASE(DamagedHeadsAreRefusedOrHarmless) {
  RandomMessages messages(11);
  Random random(12);
  int taken = 0;
  for (int i = 0; i < 2000; ++i) {
    const Frames whole = encode(messages.next(), 1);
    for (int k = 0; k < 50; ++k) {
      Frames frames = whole;
      frames.payloads = test::received(whole.payloads);
      for (uint64_t times = 1 + random.below(3); times > 0; --times) damage(frames.head, random);
      if (random.chance(0.05)) damage_payloads(frames.payloads, random);
      test::seal(frames.head);
      if (const auto got = decode(frames.head, frames.payloads, {})) require_sound(*got), ++taken;
    }
  }
  // Most flips in numbers are numbers again.
  BOOST_TEST(taken > 1000);
}

BOOST_AUTO_TEST_CASE(DamageOnTheWayIsAlwaysFound) {
  RandomMessages messages(13);
  Random random(14);
  for (int i = 0; i < 20000; ++i) {
    const Frames whole = encode(messages.next(), 1);
    Frames frames = whole;
    damage(frames.head, random);
    if (frames.head == whole.head) continue;
    BOOST_REQUIRE(!decode(frames.head, frames.payloads, {}));
  }
}

BOOST_AUTO_TEST_CASE(DamagedBlocksAreRefusedOrHarmless) {
  RandomMessages messages(15);
  Random random(16);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> block = pack(messages.next(), 1);
    damage(block, random);
    test::seal(block);
    if (const auto got = unpack(block, {})) require_sound(*got);
  }
}

BOOST_AUTO_TEST_SUITE_END()
