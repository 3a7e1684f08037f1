#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <troupe/ps/transport/internal/shared_memory.h>

namespace troupe::ps {

/// What two processes say to each other over their connection before messages go through shared memory. Not an
/// envelope: the first four bytes are such that no envelope begins with them. Both run on one host, so numbers have
/// its byte order; over a wire such a message comes to nothing.
///
///     sender                                             receiver
///        offer: its ring and arena, its heap    ->
///                                               <-     accept: its doorbell, the heap if it has mapped it; or decline
///        sends through the ring
///
/// Each is one head without payloads: u32 0xffffffff, u32 kind, then the ring that it is about, the doorbell and the heap,
/// each i32 process, i32 file, u64 token, u64 bytes.
struct SharedFrame {
  enum class Kind : uint32_t { offer = 1, accept = 2, decline = 3 };
  Kind kind = Kind::offer;
  SharedOffer ring;
  SharedOffer doorbell;  ///< only of `accept`
  SharedOffer heap;      ///< of no bytes: none is lent from
};

inline constexpr size_t kSharedFrameBytes = 8 + 3 * 24;

std::vector<std::byte> to_bytes(const SharedFrame& frame);
/// None where it is something else.
std::optional<SharedFrame> shared_frame_in(std::span<const std::byte> head);

}  // namespace troupe::ps
