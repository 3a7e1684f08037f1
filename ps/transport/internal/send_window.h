#pragma once
#include <atomic>
#include <cstddef>
#include <memory>

#include <troupe/ps/transport/internal/bell.h>

namespace troupe::ps {

/// How much of one peer's traffic ZeroMQ holds at once: little, so that an urgent message that comes later still
/// overtakes what waits in the SendQueue. ZeroMQ gives back as it writes messages to the connection.
/// Thread-safe.
class SendWindow {
 public:
  SendWindow(size_t bytes, std::shared_ptr<Bell> bell) : limit_(bytes), bell_(std::move(bell)) {}

  /// One message more may go, whatever its size.
  bool open() const { return held_.load() < limit_; }
  void take(size_t bytes) { held_.fetch_add(bytes); }
  /// From any thread, ZeroMQ's among them.
  void give_back(size_t bytes) {
    held_.fetch_sub(bytes);
    if (wanted_.load() && open() && wanted_.exchange(false)) bell_->ring();
  }
  /// Something waits: rings the bell as soon as the window is open, which may be at once.
  void want() {
    wanted_.store(true);
    if (open() && wanted_.exchange(false)) bell_->ring();
  }
  size_t held_bytes() const { return held_.load(); }

 private:
  const size_t limit_;
  std::atomic<size_t> held_{0};
  std::atomic<bool> wanted_{false};
  std::shared_ptr<Bell> bell_;
};

}  // namespace troupe::ps
