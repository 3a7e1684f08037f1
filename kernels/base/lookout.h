#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include <troupe/kernels/base/cores.h>

namespace troupe {

/// Tells the processor that this thread waits for memory to change.
inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Looks around for a short while before its thread goes to sleep: to be woken on another core can take ten times as
/// long as what came needs. It looks only where that has paid: each time that nothing came it stays away twice as
/// often, and it steps aside for any thread that wants its core. Not thread-safe.
class Lookout {
 public:
  /// `limit` 0 or one core: never looks.
  explicit Lookout(std::chrono::microseconds limit, unsigned cores = usable_cores())
      : limit_(cores > 1 ? limit : std::chrono::microseconds(0)) {}

  /// True as soon as `found()` is; false where the thread should sleep, perhaps at once.
  template <class Found>
  bool look(const Found& found) {
    if (limit_.count() == 0 || stay_away_ > 0) {
      if (stay_away_ > 0) --stay_away_;
      return false;
    }
    const bool came = wait_for(found);
    misses_ = came ? 0 : std::min(misses_ + 1, kMostDoublings);
    stay_away_ = came ? 0 : (1u << misses_) - 1;
    return came;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr uint32_t kMostDoublings = 6;
  static constexpr int kLooks = 32;  // between two looks at the clock
  // Whoever was away for longer than a system call takes shares his core with somebody.
  static constexpr std::chrono::microseconds kAway{15};

  template <class Found>
  bool wait_for(const Found& found) const {
    const auto begin = Clock::now();
    for (auto now = begin, last = now; now - begin < limit_ && now - last < kAway; last = now, now = Clock::now()) {
      for (int i = 0; i < kLooks; ++i) {
        if (found()) return true;
        pause_briefly();
      }
      std::this_thread::yield();
    }
    return false;
  }

  const std::chrono::microseconds limit_;
  uint32_t misses_ = 0, stay_away_ = 0;
};

}  // namespace troupe
