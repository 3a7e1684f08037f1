#pragma once
#include <poll.h>
#include <sys/syscall.h>

#include <cstdint>

#include <troupe/kernels/base/file_descriptor.h>

namespace troupe::ps {

/// A process as the system knows it, whoever gets its number after it. Negative where there is none.
inline FileDescriptor open_process(int32_t pid) { return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

/// A system call.
inline bool has_ended(const FileDescriptor& process) {
  pollfd file{process.get(), POLLIN, 0};
  return ::poll(&file, 1, 0) > 0;
}

}  // namespace troupe::ps
