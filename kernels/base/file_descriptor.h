#pragma once
#include <unistd.h>

#include <utility>

namespace troupe {

/// An open file of the system, closed with its owner. Negative: none, as `open` returns on failure.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  /// The caller closes it, and hears whether that succeeded.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace troupe
