#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include <troupe/ps/transport/transport.h>

namespace troupe::test {

/// What arrived at an endpoint, for tests with real threads: waits until it is there, at most ten seconds.
class Inbox {
 public:
  ps::Transport::Sink sink() {
    return [this](ps::EnvelopePtr envelope) {
      std::lock_guard lock(mutex_);
      all_.push_back(std::move(envelope));
      changed_.notify_all();
    };
  }

  /// The first `count` messages, or fewer where they did not come in time.
  std::vector<ps::EnvelopePtr> wait(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return all_.size() >= count; });
    return {all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(std::min(count, all_.size()))};
  }
  size_t size() {
    std::lock_guard lock(mutex_);
    return all_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ps::EnvelopePtr> all_;
};

/// True as soon as `condition` is; false after ten seconds.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::mutex mutex;
  std::condition_variable nobody;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::unique_lock lock(mutex);
    nobody.wait_for(lock, std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace troupe::test
