#pragma once
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include <troupe/kernels/base/file_descriptor.h>

namespace troupe::ps {

/// Wakes the I/O thread from any thread; many calls before it looks cost one system call.
class Wakeup {
 public:
  Wakeup() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  void wake() {
    if (set_.exchange(true)) return;
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);  // full: it is awake anyway
  }
  /// For the I/O thread, when the descriptor is readable, before it looks at what there is to do. In this order:
  /// whoever comes in between finds it set, and what he wants is looked at after; the other way round, his write
  /// would be lost.
  void clear() {
    uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(event_.get(), &count, sizeof count);
    set_.store(false);
  }
  /// Negative where the process may open no more files.
  int fd() const { return event_.get(); }

 private:
  FileDescriptor event_;
  std::atomic<bool> set_{false};
};

/// "This peer needs the I/O thread": one a peer.
class Bell {
 public:
  explicit Bell(std::shared_ptr<Wakeup> wakeup) : wakeup_(std::move(wakeup)) {}

  void ring() {
    rung_.store(true);
    wakeup_->wake();
  }
  /// True once a ring.
  bool answer() { return rung_.load() && rung_.exchange(false); }

 private:
  std::shared_ptr<Wakeup> wakeup_;
  std::atomic<bool> rung_{false};
};

}  // namespace troupe::ps
