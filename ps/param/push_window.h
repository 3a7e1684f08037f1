#pragma once
#include <cstdint>
#include <set>
#include <utility>

#include <troupe/ps/ids.h>

namespace troupe::ps {

/// Which of one worker's pushes a shard has taken: all up to a high-water mark, and some of a window above it, so
/// that pushes may overtake each other. The window ends at the highest sequence taken: what lies its width or more
/// below that counts as taken (the anti-replay window of RFC 4303). So a window may begin anywhere, which a server that
/// goes on from a checkpoint needs, and a sequence that never comes holds nobody up. Memory is bounded by the width,
/// whatever the worker sends.
class PushWindow {
 public:
  PushWindow() = default;
  /// Goes on from another's `high_water` and `above`.
  PushWindow(Sequence high_water, std::set<Sequence> above) : high_water_(high_water), above_(std::move(above)) {}

  bool taken(Sequence sequence) const { return sequence <= high_water_ || above_.contains(sequence); }
  /// `sequence` is not taken.
  void take(Sequence sequence, Sequence width);
  /// Everything up to here counts as taken.
  Sequence high_water() const { return high_water_; }
  /// And these.
  const std::set<Sequence>& above() const { return above_; }

 private:
  Sequence high_water_ = 0;
  std::set<Sequence> above_;  // mostly empty
};

}  // namespace troupe::ps
