#pragma once
#include <cstdint>
#include <set>
#include <utility>

#include <troupe/ps/ids.h>

namespace troupe::ps {

/// Which of one worker's pushes a shard has taken: all up to a high-water mark, and some of a window above it, so
/// that pushes may overtake each other. Memory is bounded by the window, whatever the worker sends.
class PushWindow {
 public:
  PushWindow() = default;
  /// Goes on from another's `high_water` and `above`.
  PushWindow(Sequence high_water, std::set<Sequence> above) : high_water_(high_water), above_(std::move(above)) {}

  enum class Place : uint8_t { fresh, taken, beyond };
  /// `width` is how far above the mark a sequence may be.
  Place place(Sequence sequence, Sequence width) const;
  /// `sequence` is not taken.
  void take(Sequence sequence);
  /// Everything up to here has been taken.
  Sequence high_water() const { return high_water_; }
  /// And these.
  const std::set<Sequence>& above() const { return above_; }

 private:
  Sequence high_water_ = 0;
  std::set<Sequence> above_;  // mostly empty
};

}  // namespace troupe::ps
