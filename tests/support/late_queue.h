#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include <troupe/kernels/base/random.h>

namespace troupe::test {

/// A thread that does what it is given in order, late now and then, as drawn from a seed: the stream of a device that
/// is not there. Thread-safe.
class LateQueue {
 public:
  explicit LateQueue(uint64_t seed) : random_(seed), thread_([this] { run(); }) {}
  ~LateQueue() { close(); }
  LateQueue(const LateQueue&) = delete;
  LateQueue& operator=(const LateQueue&) = delete;

  /// False where it is closed, as a stream may be while another thread waits for its device.
  bool push(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return false;
      closed_ = !task;
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
    return true;
  }
  /// Until all that was pushed before is done.
  void wait() {
    const auto done = std::make_shared<std::promise<void>>();
    if (push([done] { done->set_value(); })) done->get_future().wait();
  }
  /// Ends with what was pushed before. Idempotent, from one thread.
  void close() {
    push({});
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !tasks_.empty(); });
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task) return;
      if (random_.uniform() < 0.3) std::this_thread::sleep_for(std::chrono::microseconds(100));  // late: its purpose
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool closed_ = false;
  Random random_;
  std::thread thread_;
};

}  // namespace troupe::test
