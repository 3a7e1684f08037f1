#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/wire/codec.h>

#include <tests/support/message_fields.h>

using namespace troupe;
using namespace troupe::ps;

namespace {

/// "u32 payloads, u32 bytes of the head, u64 bytes of each payload, the head, the payloads": a block (ps/wire/pack.cc)
/// without its checksum. Both checksums are made right here, since no fuzzer would find them.
std::vector<std::byte> block_of(const uint8_t* data, size_t size) {
  std::vector<std::byte> block(8 + size);
  std::memcpy(block.data() + 8, data, size);
  const auto seal = [&](size_t at, size_t end) {
    const uint64_t sum = XXH3_64bits(block.data() + at + 8, end - at - 8);
    std::memcpy(block.data() + at, &sum, sizeof sum);
  };
  uint32_t counts[2] = {0, 0};
  std::memcpy(counts, data, std::min(size, sizeof counts));
  const size_t head = 16 + size_t{8} * counts[0], end = head + counts[1];
  if (counts[1] >= 8 && end <= block.size()) seal(head, end);
  seal(0, block.size());
  return block;
}

}  // namespace

/// What is taken can be said again, and is the same when it is taken again; nothing is taken twice from a payload.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto envelope = ps::wire::unpack(block_of(data, size), {.max_payload_bytes = 1 << 20});
  if (!envelope) {
    TROUPE_CHECK(envelope.error().kind == ErrorKind::corrupt, envelope.error().message);
    return 0;
  }
  const auto frames = ps::wire::encode(*envelope, 7);
  const auto again = ps::wire::decode(frames.head, frames.payloads, {.run = 7});
  TROUPE_CHECK(again, again.error().message);
  TROUPE_CHECK(ps::test::same(*envelope, *again));
  return 0;
}
