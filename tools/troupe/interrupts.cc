#include "interrupts.h"

#include <signal.h>
#include <unistd.h>

#include <stdexcept>

#include "exit_code.h"

namespace {

int signal_pipe[2] = {-1, -1};

void say(char byte) {
  const ssize_t written = ::write(signal_pipe[1], &byte, 1);
  (void)written;  // a full pipe holds enough of them
}

}  // namespace

Interrupts::Interrupts(std::function<void()> on_first) {
  if (::pipe(signal_pipe) != 0) throw std::runtime_error("cannot make a pipe");
  struct sigaction action {};
  action.sa_handler = [](int) { say('i'); };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  if (::signal(SIGHUP, SIG_IGN) != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);  // under nohup it stays ignored
  ::signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([on_first = std::move(on_first)] {
    char byte = 0;
    for (int count = 0; ::read(signal_pipe[0], &byte, 1) == 1 && byte == 'i'; ++count) {
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
