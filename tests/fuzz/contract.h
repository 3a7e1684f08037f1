#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/result.h>
#include <troupe/kernels/tensor/tensor.h>

/// What fuzz targets share. A target hands its input to a reader and checks what the reader's header promises; a
/// promise is a TROUPE_CHECK, whose exception nobody catches, so that libFuzzer keeps the input.
namespace troupe::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A file in memory that readers open by its path; each `holding` replaces what it held.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    TROUPE_CHECK(fd_ >= 0, std::strerror(errno));
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& holding(std::string_view bytes) {
    TROUPE_CHECK(::ftruncate(fd_, 0) == 0);
    TROUPE_CHECK(::pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    return path_;
  }

 private:
  int fd_;
  std::string path_;
};

inline void promise_named(const Error& error, const std::string& path) {
  TROUPE_CHECK(error.message.find(path) != std::string::npos, "the error names no file: ", error.message);
}

inline bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

}  // namespace troupe::fuzz
