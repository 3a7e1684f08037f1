#include "interrupts.h"

#include <sys/signalfd.h>

namespace troupe::launch {

Interrupts::Interrupts() {
  sigset_t ours;
  ::sigemptyset(&ours);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    if (number != SIGHUP || action.sa_handler != SIG_IGN) ::sigaddset(&ours, number);
  }
  ::sigprocmask(SIG_BLOCK, &ours, &before_);
  pipe_before_ = ::signal(SIGPIPE, SIG_IGN);
  fd_ = FileDescriptor(::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
}

Interrupts::~Interrupts() {
  while (take()) {
  }
  ::signal(SIGPIPE, pipe_before_);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

bool Interrupts::take() {
  signalfd_siginfo info;
  return ::read(fd_.get(), &info, sizeof info) == sizeof info;
}

}  // namespace troupe::launch
