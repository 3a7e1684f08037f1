#pragma once
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

/// How messages lie in the memory that one process, the sender, shares with another, the receiver:
///
///     Control        ring of entries, and which blocks were given back
///     arena          blocks: where each begins and ends, the sender alone decides and remembers
///
/// A message is one block and one entry, which says where the block is. A block holds
///
///     (u64 bytes, u64 place) of each payload · head · payload · payload ...     (head from 8, payloads from 64 bytes)
///
/// `place` 0 means that the payload is in the block; any other is where it lies in the sender's heap, which the
/// receiver has mapped: it is lent, and the sender keeps it as it is until the block comes back.
///
/// The sender takes a block number and room in its arena, writes the block, then the entry, and last the entry's
/// `turn`. The receiver maps the block into tensors; when the last of them goes it sets the bit of the block's number
/// in `freed`, in any order. The receiver writes nothing else: it has mapped the arena to be read alone, and its tensors
/// say so (Buffer::writable), so that what is to be kept and changed is copied out and the room comes back. There are as
/// many entries as block numbers, so that the ring cannot be full.
///
/// Each side may die, or lie, at any moment: it only trusts what it wrote itself, and checks the rest.
namespace troupe::ps::shared {

inline constexpr uint32_t kBlocks = 4096;
inline constexpr uint32_t kBitsAWord = 64;
inline constexpr uint64_t kAlignment = 64;
/// Far above what the largest snapshot has; a payload costs the receiver more memory than the few bytes that name it.
inline constexpr uint32_t kMaxPayloads = 1 << 16;

struct alignas(64) Entry {
  std::atomic<uint64_t> turn;    ///< n: holds the n-th message, from 1
  std::atomic<uint64_t> offset;  ///< of the block in the arena, a multiple of 64
  std::atomic<uint64_t> bytes;   ///< of the block
  std::atomic<uint64_t> head_bytes;
  std::atomic<uint32_t> block;
  std::atomic<uint32_t> payloads;
};

struct Control {
  alignas(64) std::atomic<uint32_t> closed;  ///< by the sender: what is in the ring is all there will be
  std::array<std::atomic<uint64_t>, kBlocks / kBitsAWord> freed;
  std::array<Entry, kBlocks> ring;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(Entry) == 64 && sizeof(Control) % kAlignment == 0);

struct Payload {
  uint64_t bytes = 0;
  uint64_t place = 0;
};
static_assert(sizeof(Payload) == 16);

/// Takes the bits of all blocks that were given back: `back(block)` for each, of anybody's numbers.
template <class Back>
void take_freed(Control& control, Back&& back) {
  for (uint32_t word = 0; word < control.freed.size(); ++word) {
    if (control.freed[word].load(std::memory_order_relaxed) == 0) continue;
    for (uint64_t bits = control.freed[word].exchange(0, std::memory_order_acquire); bits; bits &= bits - 1)
      back(word * kBitsAWord + static_cast<uint32_t>(std::countr_zero(bits)));
  }
}

/// Offset of each part in a block; none where the sum does not fit into `limit`. Both sides compute it.
struct BlockPlan {
  uint64_t head = 0;
  uint64_t bytes = 0;  ///< of the whole block
};

inline uint64_t aligned(uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

/// Calls `place(index, offset)` for each payload that is in the block. Numbers are anybody's: nothing here overflows.
template <class Place>
std::optional<BlockPlan> plan_block(uint64_t head_bytes, std::span<const Payload> payloads, uint64_t limit,
                                    Place&& place) {
  if (limit > UINT64_MAX / 4 || payloads.size() > limit / sizeof(Payload) || head_bytes > limit) return std::nullopt;
  BlockPlan plan{payloads.size() * sizeof(Payload), 0};
  plan.bytes = plan.head + head_bytes;
  for (size_t i = 0; i < payloads.size(); ++i) {
    if (payloads[i].place != 0) continue;
    const uint64_t at = aligned(plan.bytes);
    if (at > limit || payloads[i].bytes > limit - at) return std::nullopt;
    place(i, at);
    plan.bytes = at + payloads[i].bytes;
  }
  if (plan.bytes > limit) return std::nullopt;
  return plan;
}

}  // namespace troupe::ps::shared
