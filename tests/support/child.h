#pragma once
#include <unistd.h>
#include <csignal>
#include <functional>

#include <sys/wait.h>

#include <troupe/kernels/base/check.h>

namespace troupe::test {

/// Another process that runs `work`, made by fork: start it before the test has threads. It ends with what `work` returns,
/// or by SIGALRM after 30 s, and is killed with its owner.
class Child {
 public:
  explicit Child(const std::function<int()>& work) : pid_(::fork()) {
    TROUPE_CHECK(pid_ >= 0, "fork");
    if (pid_ != 0) return;
    ::alarm(30);
    int code = 99;
    try {
      code = work();
    } catch (...) {
    }
    ::_exit(code);
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  /// SIGKILL, and it has ended on return.
  void kill() {
    if (!running_) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  /// Its exit code; 128 + the signal that ended it.
  int wait() {
    int status = 0;
    TROUPE_CHECK(running_ && ::waitpid(pid_, &status, 0) == pid_, "process ", pid_);
    running_ = false;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
  bool running_ = true;
};

/// Values from one process to its child or back, through a pipe.
class Mail {
 public:
  Mail() { TROUPE_CHECK(::pipe(ends_) == 0, "pipe"); }
  ~Mail() { ::close(ends_[0]), ::close(ends_[1]); }
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  template <class T>
  void put(const T& value) {
    TROUPE_CHECK(::write(ends_[1], &value, sizeof value) == sizeof value, sizeof value, " bytes");
  }
  template <class T>
  T take() {
    T value;
    TROUPE_CHECK(::read(ends_[0], &value, sizeof value) == sizeof value, sizeof value, " bytes");
    return value;
  }

 private:
  int ends_[2];
};

}  // namespace troupe::test
