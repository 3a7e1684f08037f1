#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::ps {

/// Which parts of a memory of `bytes` are free: numbers only, the memory may be anywhere. Small blocks take the first
/// gap from the low end, large ones the last from the high end: what was just given back, and is still in a cache, is
/// taken again first, and small blocks that are held long do not cut up the room for large ones. Neighbours that are
/// free grow together. Cost: linear in the number of gaps. Not thread-safe.
class BlockArena {
 public:
  static constexpr uint64_t kAlignment = 64;
  static constexpr uint64_t kLargeBytes = 64 << 10;

  explicit BlockArena(uint64_t bytes) { free_.push_back({0, bytes / kAlignment * kAlignment}); }

  /// Offset of so many bytes, a multiple of 64; none where no gap is large enough.
  std::optional<uint64_t> take(uint64_t bytes);
  /// What `take(bytes)` gave.
  void give_back(uint64_t offset, uint64_t bytes);

  uint64_t free_bytes() const;

 private:
  struct Gap {
    uint64_t begin, end;
  };
  std::vector<Gap> free_;  // in order, never touching
};

}  // namespace troupe::ps
