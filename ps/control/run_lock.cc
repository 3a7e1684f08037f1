#include <troupe/ps/control/run_lock.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

/// A line each: process, the kernel under which it runs, the name of the host.
struct Holder {
  std::string process, kernel, host;

  std::string lines() const { return cat(process, '\n', kernel, '\n', host, '\n'); }
  std::string sentence() const {
    return cat(process.empty() ? "a process" : "process " + process, host.empty() ? "" : " on " + host);
  }
};

Holder this_process() {
  Holder self{cat(::getpid()), "", ""};
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), self.kernel);
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) == 0) self.host = name;
  return self;
}

Holder read_holder(int file) {
  char text[512] = "";
  std::istringstream lines(::pread(file, text, sizeof text - 1, 0) > 0 ? text : "");
  Holder holder;
  std::getline(lines, holder.process);
  std::getline(lines, holder.kernel);
  std::getline(lines, holder.host);
  return holder;
}

}  // namespace

Result<std::shared_ptr<RunLock>> RunLock::take(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (file.get() < 0) return fail(ErrorKind::failed, cat("cannot open ", path, ": ", std::strerror(errno)));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail(ErrorKind::failed, cat("cannot lock ", path, ": ", std::strerror(errno)));
    return fail(ErrorKind::invalid, cat("the run's coordinator lives (", read_holder(file.get()).sentence(),
                                        "), though it may be stopped: it holds ", path, "; end it first"));
  }
  const Holder before = read_holder(file.get()), self = this_process();
  if (!before.kernel.empty() && before.kernel != self.kernel)
    return fail(ErrorKind::invalid,
                cat("the run's coordinator was ", before.sentence(), ", and this is another machine, or that one ",
                    "started anew: a lock in a shared folder need not show here that it lives. Make sure that it has ",
                    "ended, and delete ", path));
  const std::string lines = self.lines();
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), lines.data(), lines.size(), 0) != static_cast<ssize_t>(lines.size()))
    return fail(ErrorKind::failed, cat("cannot write ", path, ": ", std::strerror(errno)));
  return std::shared_ptr<RunLock>(new RunLock(std::move(file)));
}

}  // namespace troupe::ps
