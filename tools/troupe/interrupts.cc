#include "interrupts.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

#include "exit_code.h"

namespace {

int signal_pipe[2] = {-1, -1};

void say(char byte) {
  const int saved = errno;
  const ssize_t written = ::write(signal_pipe[1], &byte, 1);
  (void)written;  // a full pipe holds enough of them
  errno = saved;
}

/// False at the pipe's end. A signal may have been given to this thread, as to any other.
bool hear(char& byte) {
  ssize_t count = 0;
  do count = ::read(signal_pipe[0], &byte, 1);
  while (count < 0 && errno == EINTR);
  return count == 1;
}

}  // namespace

Interrupts::Interrupts(std::function<void()> on_first) {
  if (::pipe2(signal_pipe, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  struct sigaction action {};
  action.sa_handler = [](int) { say('i'); };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  if (::signal(SIGHUP, SIG_IGN) != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);  // under nohup it stays ignored
  ::signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([on_first = std::move(on_first)] {
    ::pthread_setname_np(::pthread_self(), "interrupts");
    char byte = 0;
    for (int count = 0; hear(byte) && byte == 'i'; ++count) {
      if (count > 0) ::_exit(kInterrupted);
      on_first();
    }
  });
}

Interrupts::~Interrupts() {
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  ::signal(SIGHUP, SIG_DFL);
  say('q');
  thread_.join();
  ::close(signal_pipe[0]);
  ::close(signal_pipe[1]);
}
