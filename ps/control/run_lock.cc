#include <troupe/ps/control/run_lock.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
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

Holder this_process(const std::string& kernel) {
  Holder self{cat(::getpid()), kernel, ""};
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

tl::unexpected<Error> trouble(const char* what, const std::string& path) {
  return fail(ErrorKind::failed, cat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

/// Whether the file that was locked is still the one that others find there: a holder that ends removes it, and one
/// that is locked without its name excludes nobody.
bool is_at(int file, const std::string& path) {
  struct stat locked {}, named {};
  return ::fstat(file, &locked) == 0 && ::stat(path.c_str(), &named) == 0 && locked.st_dev == named.st_dev &&
         locked.st_ino == named.st_ino;
}

std::string held_text(const Holder& holder, const std::string& path) {
  return cat("the run's coordinator lives (", holder.sentence(), "), though it may be stopped: it holds ", path,
             "; end it first: troupe stop RUN, or kill -9 ", holder.process.empty() ? "of its process" : holder.process,
             " where that does not answer");
}

std::string left_text(const Holder& before, const std::string& kernel, const std::string& path) {
  const char* const unknown =
      "it cannot be told whether it ran on this machine, since it started (/proc/sys/kernel/random/boot_id could not "
      "be read)";
  return cat("the run's coordinator was ", before.sentence(), ", and ",
             before.kernel.empty() || kernel.empty() ? unknown
                                                     : "this is another machine, or that one started anew",
             ": a lock in a shared folder need not show here that it lives. Make sure that it has ended, and delete ",
             path);
}

/// The file, locked; -1: somebody removed it meanwhile.
Result<FileDescriptor> lock_file(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (file.get() < 0) return trouble("open", path);
  const auto excludes = RunLock::hold(file.get(), path);
  if (!excludes) return tl::unexpected<Error>(excludes.error());
  return *excludes ? std::move(file) : FileDescriptor(-1);
}

}  // namespace

std::string this_kernel() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

Result<bool> RunLock::hold(int file, const std::string& path) {
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return is_at(file, path);
  if (errno != EWOULDBLOCK) return trouble("lock", path);
  return fail(ErrorKind::invalid, held_text(read_holder(file), path));
}

Result<std::shared_ptr<RunLock>> RunLock::take(const std::string& path, const std::string& kernel) {
  auto file = lock_file(path);
  for (int again = 0; file && file->get() < 0 && again < 100; ++again) file = lock_file(path);
  if (!file) return tl::unexpected<Error>(file.error());
  if (file->get() < 0)
    return fail(ErrorKind::failed, cat("cannot lock ", path, ": others remove it again and again"));
  const Holder before = read_holder(file->get()), self = this_process(kernel);
  if (!before.process.empty() && (kernel.empty() || before.kernel != kernel))
    return fail(ErrorKind::invalid, left_text(before, kernel, path));
  const std::string lines = self.lines();
  if (::ftruncate(file->get(), 0) != 0 ||
      ::pwrite(file->get(), lines.data(), lines.size(), 0) != static_cast<ssize_t>(lines.size()))
    return trouble("write", path);
  return std::shared_ptr<RunLock>(new RunLock(std::move(*file)));
}

}  // namespace troupe::ps
