#include "death_pipe.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include <troupe/kernels/base/text.h>

namespace troupe::launch {
namespace {

void wait_for_end_of_file(int fd) {
  char bytes[256];
  for (;;) {
    const ssize_t n = ::read(fd, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EINTR)) return;
  }
}

}  // namespace

Status end_when_closed(int fd, std::chrono::milliseconds grace) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY)
    return fail(ErrorKind::invalid, cat("--death-fd ", fd,
                                        ": is not a file that is open for reading; only a launcher "
                                        "that hands over the end of a pipe uses this option"));
  ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([fd, grace] {
    wait_for_end_of_file(fd);
    ::kill(::getpid(), SIGTERM);
    std::this_thread::sleep_for(grace);
    ::kill(::getpid(), SIGKILL);
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {};
}

}  // namespace troupe::launch
