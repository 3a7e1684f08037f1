#pragma once
#include <cstdint>

#include <troupe/ps/ids.h>

namespace troupe::ps {

/// Which of one worker's pushes a shard has taken: all up to a high-water mark, and any of the 64 above it, so
/// that pushes may overtake each other. Memory is bounded whatever the worker sends.
class PushWindow {
 public:
  static constexpr Sequence kWidth = 64;

  enum class Place : uint8_t { fresh, taken, beyond };
  Place place(Sequence sequence) const;
  /// `sequence` is fresh.
  void take(Sequence sequence);
  /// Everything up to here has been taken.
  Sequence high_water() const { return high_water_; }

 private:
  Sequence high_water_ = 0;
  uint64_t above_ = 0;  // bit i: high_water_ + 1 + i has been taken; bit 0 is never set
};

}  // namespace troupe::ps
