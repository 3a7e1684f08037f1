#pragma once
#include <sys/types.h>

#include <chrono>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/result.h>

namespace troupe::launch {

/// A small process that outlives the launcher, even one that is killed with signal 9: when the launcher is gone it
/// gives the children that it was told of `patience` to end by themselves (their death pipes have closed), then kills
/// those that have not: stopped ones, and programs that know of no death pipe. It holds each by a file descriptor of
/// the kernel (pidfd), never by a number that may have become another process's, and ends when they have.
class Guard {
 public:
  /// Forks: to be called before the launcher has threads, and before it starts children.
  static Result<Guard> start(std::chrono::milliseconds patience);
  Guard(Guard&&) = default;
  Guard& operator=(Guard&&) = delete;
  /// Waits for the guard, which waits for the children: to be destroyed when all have ended.
  ~Guard();

  /// From now on the process is watched; `pidfd` is copied.
  void watch(pid_t pid, int pidfd) const;
  pid_t pid() const { return pid_; }

 private:
  Guard(pid_t pid, FileDescriptor socket) : pid_(pid), socket_(std::move(socket)) {}
  pid_t pid_;
  FileDescriptor socket_;
};

}  // namespace troupe::launch
