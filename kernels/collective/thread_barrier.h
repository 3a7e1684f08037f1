#pragma once
#include <atomic>
#include <mutex>
#include <string>

#include <troupe/kernels/base/lookout.h>

namespace troupe {

/// Where the threads of a group meet. Reused for any number of rounds; every thread makes the same calls.
class ThreadBarrier {
 public:
  explicit ThreadBarrier(int size) : size_(size) {}

  /// Waits for all threads. False, for all of them alike, when `abort` came before the last one. `lookout` is the
  /// calling thread's, and decides how long it looks before it sleeps.
  bool meet_or_abort(Lookout& lookout);
  /// Waits for all threads, aborted or not: for work that has begun and that every thread finishes by itself.
  void meet(Lookout& lookout);
  /// Ends all waits of `meet_or_abort`, now and later. The first reason stays.
  void abort(const std::string& reason);
  /// Empty unless aborted.
  std::string abort_reason() const;

 private:
  const int size_;
  // Apart, so that who waits does not take the line from who arrives.
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<int> state_{0};
  alignas(64) mutable std::mutex mutex_;
  std::string reason_;
};

}  // namespace troupe
