#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// Where another process finds a block of shared memory: file `fd` of process `pid`. `token` is random and stands in
/// the block too, so that a number that meanwhile means another file is noticed.
struct SharedOffer {
  int32_t pid = 0;
  int32_t fd = -1;
  uint64_t token = 0;
  uint64_t bytes = 0;  ///< usable ones
  bool operator==(const SharedOffer&) const = default;
};

/// Zeroed memory that processes of one user on one host map together. It is an anonymous file (memfd) of sealed
/// size: nobody can shrink it under a reader, it has no name that could be left behind, and the system frees it
/// with the last process that maps it, however that ended. Pages are taken when first touched.
///
/// What another process may write at any time is read through atomics, once, and checked.
class SharedMemory {
 public:
  /// `name`: for people who look at the maps of a process.
  static Result<std::shared_ptr<SharedMemory>> create(uint64_t bytes, const char* name = "troupe");
  /// Maps what another process made. Refused unless it is an anonymous file of this user, of the size and with the
  /// seals and the token that were promised, and of at most `limit_bytes`. `read`: whoever writes to it here is ended
  /// by the system.
  enum class Access : uint8_t { read, write };
  static Result<std::shared_ptr<SharedMemory>> open(const SharedOffer& offer, uint64_t limit_bytes,
                                                    Access access = Access::write);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Holds as long as this process has the memory that it created.
  SharedOffer offer() const;
  std::byte* data() const { return map_ + kPrefixBytes; }  ///< aligned to 64 bytes
  uint64_t bytes() const { return bytes_; }
  int file() const { return file_.get(); }

  struct Range {
    uint64_t at = 0, bytes = 0;  ///< of data()
  };
  /// Of memory that is only read here, and written by nobody any more: these ranges, ascending, become copies that
  /// are this process's own, in the same places, while others read them; the rest must not be touched from then on.
  /// What cannot be copied for want of memory stays as it is.
  void keep_copies(std::span<const Range> ranges);
  /// From the first whole page at `offset` of data() on it is only read here: whoever writes is ended by the system.
  void only_read_from(uint64_t offset);

  static constexpr uint64_t kPrefixBytes = 64;  ///< before data(): magic, token

 private:
  SharedMemory(FileDescriptor file, std::byte* map, uint64_t bytes, uint64_t token)
      : file_(std::move(file)), map_(map), bytes_(bytes), token_(token) {}
  static Result<std::shared_ptr<SharedMemory>> map(FileDescriptor file, uint64_t bytes, uint64_t token,
                                                   Access access);

  FileDescriptor file_;  // closed once there are copies
  std::byte* const map_;
  const uint64_t bytes_, token_;
};

}  // namespace troupe::ps
