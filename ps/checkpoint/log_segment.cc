#include <troupe/ps/checkpoint/log_segment.h>

#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

static_assert(std::endian::native == std::endian::little, "records are written as they lie in memory");

struct Head {
  uint32_t magic = 0x314c5254;  // "TRL1"
  uint32_t zero = 0;
  uint64_t length = 0;
  uint64_t synced = 0;
  uint64_t checksum = 0;
};
static_assert(sizeof(Head) == 32);

uint64_t checksum_of(const Head& head, std::span<const std::byte> payload) {
  const uint64_t seed = XXH3_64bits(&head, offsetof(Head, checksum));
  return XXH3_64bits_withSeed(payload.data(), payload.size(), seed);
}

struct Record {
  Head head;
  std::vector<std::byte> payload;
};

// Nothing where the bytes at `at` are no whole record.
Result<std::optional<Record>> record_at(const InputFile& file, uint64_t at) {
  Record record;
  if (at > file.size() || file.size() - at < sizeof(Head)) return std::nullopt;
  TROUPE_TRY(file.read(at, std::as_writable_bytes(std::span(&record.head, 1))));
  if (record.head.magic != Head{}.magic || record.head.zero != 0) return std::nullopt;
  if (record.head.length > file.size() - at - sizeof(Head)) return std::nullopt;
  record.payload.resize(record.head.length);
  TROUPE_TRY(file.read(at + sizeof(Head), record.payload));
  if (checksum_of(record.head, record.payload) != record.head.checksum) return std::nullopt;
  return record;
}

// Looks behind a place that is no record for one that says that the place had been written through.
Result<bool> was_synced(const InputFile& file, uint64_t place) {
  constexpr uint64_t kWindow = 1 << 20;
  std::vector<std::byte> window;
  for (uint64_t at = place + 1; at + sizeof(Head) <= file.size(); at += kWindow) {
    window.resize(std::min<uint64_t>(kWindow + sizeof(uint32_t), file.size() - at));
    TROUPE_TRY(file.read(at, window));
    for (size_t i = 0; i + sizeof(uint32_t) <= window.size() && i < kWindow; ++i) {
      uint32_t magic = 0;
      std::memcpy(&magic, window.data() + i, sizeof magic);
      if (magic != Head{}.magic) continue;
      const auto record = record_at(file, at + i);
      if (!record) return tl::unexpected(record.error());
      if (*record && (*record)->head.synced > place) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::byte> record_head(std::span<const std::byte> payload, uint64_t synced_bytes) {
  Head head;
  head.length = payload.size();
  head.synced = synced_bytes;
  head.checksum = checksum_of(head, payload);
  const auto bytes = std::as_bytes(std::span(&head, 1));
  return {bytes.begin(), bytes.end()};
}

Result<SegmentRead> read_segment(FileOps& files, const std::string& path, uint64_t expected_bytes,
                                 const std::function<Status(std::span<const std::byte>)>& take) {
  const auto file = files.open(path);
  if (!file) return tl::unexpected(file.error());
  SegmentRead read;
  while (expected_bytes == 0 || read.bytes < expected_bytes) {
    const auto record = record_at(**file, read.bytes);
    if (!record) return tl::unexpected(record.error());
    if (!*record) break;
    TROUPE_TRY(take((*record)->payload));
    read.bytes += sizeof(Head) + (*record)->payload.size();
  }
  if (expected_bytes != 0) {
    if (read.bytes == expected_bytes) return read;
    return fail(ErrorKind::corrupt, cat(path, " is damaged at byte ", read.bytes, ": it held records up to byte ",
                                        expected_bytes, " when the log went on in another file"));
  }
  read.cut = (*file)->size() - read.bytes;
  if (read.cut == 0) return read;
  const auto damage = was_synced(**file, read.bytes);
  if (!damage) return tl::unexpected(damage.error());
  if (*damage)
    return fail(ErrorKind::corrupt, cat(path, " is damaged at byte ", read.bytes, " of ", (*file)->size(),
                                        ": what lies there had been written through to the disk"));
  return read;
}

}  // namespace troupe::ps
