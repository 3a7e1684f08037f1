#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include <troupe/ps/transport/internal/bell.h>

namespace troupe::ps {

/// How much of one peer's traffic ZeroMQ holds at once: little, so that an urgent message that comes later still
/// overtakes what waits in the SendQueue. ZeroMQ gives back as it writes messages to the connection. Where it had
/// written all before more could be brought, the connection is faster than the window is wide: it doubles, up to
/// `kMostTimes` its first width. A slow one never runs dry, and its window stays small. Thread-safe.
class SendWindow {
 public:
  static constexpr size_t kMostTimes = 16;

  SendWindow(size_t bytes, std::shared_ptr<Bell> bell)
      : limit_(bytes), most_(bytes * kMostTimes), bell_(std::move(bell)) {}
  ~SendWindow() { sweep(); }
  SendWindow(const SendWindow&) = delete;
  SendWindow& operator=(const SendWindow&) = delete;

  /// One message more may go, whatever its size.
  bool open() const { return held_.load() < limit_.load(); }
  /// One caller at a time.
  void take(size_t bytes) {
    const bool was_full = was_full_.exchange(false);
    if (held_.fetch_add(bytes) == 0 && was_full) limit_ = std::min(most_, limit_.load() * 2);
  }
  /// From any thread, ZeroMQ's among them.
  void give_back(size_t bytes) {
    held_.fetch_sub(bytes);
    if (wanted_.load() && open() && wanted_.exchange(false)) bell_->ring();
  }
  /// Something waits: rings the bell as soon as the window is open, which may be at once.
  void want() {
    was_full_.store(true);
    wanted_.store(true);
    if (open() && wanted_.exchange(false)) bell_->ring();
  }
  size_t held_bytes() const { return held_.load(); }

  /// Memory of a message that was given back. It is freed by whoever sends next: from ZeroMQ's thread, it would be
  /// locked away from the thread that took it and takes the next.
  struct Spent {
    virtual ~Spent() = default;
    Spent* next = nullptr;
  };
  /// From any thread. Takes ownership.
  void leave(Spent* spent) {
    spent->next = spent_.load();
    while (!spent_.compare_exchange_weak(spent->next, spent)) {
    }
  }
  void sweep() {
    for (Spent* spent = spent_.exchange(nullptr); spent;) delete std::exchange(spent, spent->next);
  }

 private:
  std::atomic<size_t> limit_;
  const size_t most_;
  std::atomic<size_t> held_{0};
  std::atomic<bool> wanted_{false}, was_full_{false};
  std::atomic<Spent*> spent_{nullptr};
  std::shared_ptr<Bell> bell_;
};

}  // namespace troupe::ps
