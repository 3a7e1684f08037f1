#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/result.h>

namespace troupe::launch {

/// What is started, and how it hears that its launcher is gone.
struct Command {
  std::vector<std::string> argv;  ///< argv[0] is a path, or a name that PATH is searched for
  int death_fd = 3;               ///< where the child finds its death pipe; 0: its standard input, else that is empty
};

/// How a process ended.
struct Ending {
  bool by_signal = false;
  int code = 0;  ///< signal or exit code

  bool ok() const { return !by_signal && code == 0; }
  /// As shells count: the exit code, or 128 + signal.
  int exit_code() const { return by_signal ? 128 + code : code; }
};
/// "signal 9 (Killed)", "exit code 1".
std::string text_of(const Ending& ending);

/// A running process, leader of its own process group. It has no other files of the launcher than those named
/// here, and the signal mask that `start` was told.
class Child {
 public:
  /// Fails where there is no such program, or no process to be had.
  static Result<Child> start(const Command& command);

  pid_t pid() const { return pid_; }
  int ended_fd() const { return pidfd_.get(); }  ///< readable once the process has ended
  int stdout_fd() const { return out_.get(); }   ///< does not block; -1 once closed
  int stderr_fd() const { return err_.get(); }
  void close_stdout() { out_ = FileDescriptor(-1); }
  void close_stderr() { err_ = FileDescriptor(-1); }

  /// Closes the death pipe: the process drains and ends by itself.
  void let_go() { tether_ = FileDescriptor(-1); }
  /// Sends a signal to its process group, unless the process has been reaped.
  void signal(int number) const;
  /// Takes its ending, and ends what it left behind in its group. Only once ended_fd() is readable.
  Ending reap();

 private:
  Child(pid_t pid, int pidfd, FileDescriptor out, FileDescriptor err, FileDescriptor tether)
      : pid_(pid), pidfd_(pidfd), out_(std::move(out)), err_(std::move(err)), tether_(std::move(tether)) {}

  pid_t pid_;
  bool reaped_ = false;
  FileDescriptor pidfd_, out_, err_, tether_;
};

}  // namespace troupe::launch
