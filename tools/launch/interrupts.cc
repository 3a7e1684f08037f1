#include "interrupts.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include <troupe/kernels/base/check.h>

namespace troupe::launch {

Interrupts::Interrupts() {
  TROUPE_CHECK(::pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) == 0, std::strerror(errno));
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    struct sigaction action {};
    action.sa_handler = [](int) {
      const int saved = errno;
      const ssize_t written = ::write(pipe_[1], "i", 1);
      (void)written;  // a full pipe holds enough of them
      errno = saved;
    };
    if (kSignals[i] == SIGPIPE || (kSignals[i] == SIGHUP && before_[i].sa_handler == SIG_IGN))
      action.sa_handler = SIG_IGN;
    ::sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  for (int& end : pipe_) {
    ::close(end);
    end = -1;
  }
}

bool Interrupts::take() {
  char byte;
  return ::read(pipe_[0], &byte, 1) == 1;
}

}  // namespace troupe::launch
