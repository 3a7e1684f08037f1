#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/checkpoint/file_ops.h>

/// One file of records, each whole or not there. All numbers are little-endian:
///
///   magic u32 "TRL1" | 0 u32 | length u64 | synced u64 | XXH3-64 u64 of all that, without itself, and the payload
///   payload: `length` bytes
///
/// `synced` is how many bytes of this file were known to survive a power cut when the record was written. A process or
/// machine that ends while it writes leaves a file whose end is not a record: that is what was never promised. A record
/// that is not whole although a later one says that it had been written through is damage.
namespace troupe::ps {

/// One What stands before `payload` in its record.
std::vector<std::byte> record_head(std::span<const std::byte> payload, uint64_t synced_bytes);

struct SegmentRead {
  uint64_t bytes = 0;  ///< the whole records'
  uint64_t cut = 0;    ///< bytes after them that are none
};
/// Calls `take` for the payload of each record, in order. `expected_bytes`: the file held so many bytes of whole
/// records when it was read before, and what lies after is of no account; 0: it is read for the first time. Damage is
/// ErrorKind::corrupt and names file and byte; what `take` fails with is passed on.
Result<SegmentRead> read_segment(FileOps& files, const std::string& path, uint64_t expected_bytes,
                                 const std::function<Status(std::span<const std::byte>)>& take);

}  // namespace troupe::ps
