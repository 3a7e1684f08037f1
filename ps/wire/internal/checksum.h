#pragma once
// Inlined, so that it is compiled for TROUPE_ARCH: Debian's library is built for every x86-64 and half as fast.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::ps::wire {

/// XXH3-64 (https://github.com/Cyan4973/xxHash): finds what wires and disks do to bytes, not what people do.
inline uint64_t checksum_of(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace troupe::ps::wire
