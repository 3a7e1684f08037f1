#include <troupe/kernels/collective/thread_barrier.h>

namespace troupe {
namespace {

// For ranks that come within microseconds of each other; then it is for the lookout to say.
constexpr int kSpins = 100;

// The word waited on, which is an int because that is what a futex takes: rounds completed (wrapping around),
// and in bit 0 whether the group was aborted.
constexpr int kAborted = 1, kRound = 2;

bool same_round(int a, int b) {
  return ((a ^ b) & ~kAborted) == 0;
}

int next_round(int state) {
  return static_cast<int>(static_cast<unsigned>(state) + kRound);
}

// The first value of `word` that differs from `old`.
int wait_for_change(const std::atomic<int>& word, int old, Lookout& lookout) {
  for (int i = 0; i < kSpins; ++i) {
    const int now = word.load(std::memory_order_acquire);
    if (now != old) return now;
    pause_briefly();
  }
  if (!lookout.look([&] { return word.load(std::memory_order_acquire) != old; }))
    word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

}  // namespace

bool ThreadBarrier::meet_or_abort(Lookout& lookout) {
  int before = state_.load(std::memory_order_acquire);
  if (before & kAborted) return false;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    // Abort and completion race for the one word, so that all ranks see the same outcome.
    if (!state_.compare_exchange_strong(before, next_round(before), std::memory_order_acq_rel)) return false;
    state_.notify_all();
    return true;
  }
  int now = before;
  while (now == before) now = wait_for_change(state_, before, lookout);
  return !same_round(now, before);
}

void ThreadBarrier::meet(Lookout& lookout) {
  const int before = state_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    state_.fetch_add(kRound, std::memory_order_acq_rel);
    state_.notify_all();
    return;
  }
  int now = before;
  while (same_round(now, before)) now = wait_for_change(state_, now, lookout);
}

void ThreadBarrier::abort(const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (state_.load() & kAborted) return;
    reason_ = reason;
    state_.fetch_or(kAborted, std::memory_order_acq_rel);
  }
  state_.notify_all();
}

std::string ThreadBarrier::abort_reason() const {
  std::lock_guard lock(mutex_);
  return reason_;
}

}  // namespace troupe
