#include <troupe/ps/control/run_lock.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

std::string holder(int file) {
  char text[32] = "";
  return ::pread(file, text, sizeof text - 1, 0) > 0 ? cat(" (process ", text, ")") : "";
}

}  // namespace

Result<std::shared_ptr<RunLock>> RunLock::take(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (file.get() < 0) return fail(ErrorKind::failed, cat("cannot open ", path, ": ", std::strerror(errno)));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail(ErrorKind::failed, cat("cannot lock ", path, ": ", std::strerror(errno)));
    return fail(ErrorKind::invalid, cat("the run's coordinator lives", holder(file.get()),
                                        ", though it may be stopped: it holds ", path, "; end it first"));
  }
  const std::string self = cat(::getpid());
  if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), self.data(), self.size(), 0) < 0)
    return fail(ErrorKind::failed, cat("cannot write ", path, ": ", std::strerror(errno)));
  return std::shared_ptr<RunLock>(new RunLock(std::move(file)));
}

}  // namespace troupe::ps
