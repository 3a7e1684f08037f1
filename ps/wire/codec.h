#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/messages.h>

/// Envelopes as bytes. The format is schema.capnp; this is the only code that knows it.
namespace troupe::ps::wire {

inline constexpr uint16_t kProtocolVersion = 1;

/// Which run a message belongs to, random; 0: none yet (Hello, tools).
using RunId = uint64_t;

/// A message on its way: `head` is the Cap'n Proto envelope, with the description of every payload (shape, dtype,
/// length, checksum); payloads are the tensors' own bytes, not copied.
struct Frames {
  std::vector<std::byte> head;
  std::vector<Tensor> payloads;
};

/// `without`: only for payloads in memory that both sides share, which were never on a wire.
enum class Checksums : uint8_t { with, without };

/// Never fails: whatever can be said can be encoded. A tensor without memory, or not in the CPU's, is a bug.
/// Thread-safe. About 0.2 us, and 0.1 ms a MB of payload for checksums.
Frames encode(const Envelope& envelope, RunId run, Checksums checksums = Checksums::with);

struct DecodeLimits {
  size_t max_head_bytes = 16 << 20;
  size_t max_payload_bytes = size_t{1} << 32;  ///< of one message, all payloads together
  RunId run = 0;                               ///< 0: any; else another run's message is refused
  bool check_payloads = true;                  ///< false: frames encoded without checksums; the head has one always
  /// Payloads lie in memory that their sender may still write. Integers, which say where to read and write (row
  /// numbers), are copied, so that what was checked of them is what is used. Floats stay where they are: any are good.
  bool may_change = false;
};

/// What came in. `payloads` are u8 tensors over the received memory; the envelope's tensors view them where they
/// are aligned as their element type needs (and `limits` allows) and are copied to aligned memory where not. Anything that does not
/// fit (sizes, ids, shapes, dtypes, checksums, another protocol version or run) is ErrorKind::corrupt and says what;
/// nothing that a peer sends ends in a check, and no memory is taken for what it merely declares. That tensors have the
/// sizes of the receiver's layout is not known here. Thread-safe. About 0.1 us, and 0.1 more a tensor.
Result<Envelope> decode(std::span<const std::byte> head, std::vector<Tensor> payloads, const DecodeLimits& limits);

/// One self-contained block of bytes, for files: lengths, head and payloads under one checksum. `unpack` copies the
/// payloads, so that the block may go; it may have any alignment. `limits.check_payloads` is not looked at: nothing
/// of a block goes unchecked.
std::vector<std::byte> pack(const Envelope& envelope, RunId run);
Result<Envelope> unpack(std::span<const std::byte> block, const DecodeLimits& limits);

}  // namespace troupe::ps::wire
