#pragma once
#include <cstdint>
#include <set>

#include <troupe/ps/ids.h>

namespace troupe::ps {

/// Which of one worker's pushes a shard has taken: all up to a high-water mark, and some of a window above it, so
/// that pushes may overtake each other. Memory is bounded by the window, whatever the worker sends.
class PushWindow {
 public:
  enum class Place : uint8_t { fresh, taken, beyond };
  /// `width` is how far above the mark a sequence may be.
  Place place(Sequence sequence, Sequence width) const;
  /// `sequence` is not taken.
  void take(Sequence sequence);
  /// Everything up to here has been taken.
  Sequence high_water() const { return high_water_; }

 private:
  Sequence high_water_ = 0;
  std::set<Sequence> above_;  // mostly empty
};

}  // namespace troupe::ps
