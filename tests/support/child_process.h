#pragma once
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include <troupe/kernels/base/check.h>

namespace troupe::test {

/// A process that runs `body(channel)` and ends; `channel` is a descriptor on which it tells its parent lines. Made by
/// fork: no other thread may be in the middle of something. Killed and awaited at the end of the test, and gone with
/// its parent.
class ChildProcess {
 public:
  template <class Body>
  explicit ChildProcess(Body body) {
    std::array<int, 2> channel{};
    TROUPE_CHECK(::pipe(channel.data()) == 0, "no pipe");
    pid_ = ::fork();
    TROUPE_CHECK(pid_ >= 0, "no process");
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(channel[0]);
      body(channel[1]);
      ::_exit(0);
    }
    ::close(channel[1]);
    from_child_ = channel[0];
  }
  ~ChildProcess() {
    end(SIGKILL);
    ::close(from_child_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// The next line that it told; empty when it ended.
  std::string line() {
    std::string text;
    for (char c = 0; ::read(from_child_, &c, 1) == 1 && c != '\n';) text += c;
    return text;
  }
  /// From inside the child.
  static void tell(int channel, const std::string& text) {
    const std::string line = text + '\n';
    TROUPE_CHECK(::write(channel, line.data(), line.size()) == static_cast<ssize_t>(line.size()), "nobody listens");
  }

  void signal(int number) { ::kill(pid_, number); }
  /// Sends the signal and waits for the end.
  void end(int number) {
    if (pid_ <= 0) return;
    ::kill(pid_, number);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int from_child_ = -1;
};

}  // namespace troupe::test
