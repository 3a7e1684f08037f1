#include "child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/text.h>

namespace troupe::launch {
namespace {

struct Pipe {
  FileDescriptor read{-1}, write{-1};
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return fail(ErrorKind::exhausted, cat("cannot make a pipe for a process: ", std::strerror(errno)));
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// A group of its own, no signal blocked or ignored, and of the launcher's files only the three pipes.
class SpawnSettings {
 public:
  SpawnSettings(int out, int err, int death, int death_fd) {
    ::posix_spawn_file_actions_init(&files_);
    // The launcher's own standard streams are open, so that no pipe has one of their numbers; these two go first
    // because death_fd may be the number of one of them.
    ::posix_spawn_file_actions_adddup2(&files_, out, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&files_, err, STDERR_FILENO);
    ::posix_spawn_file_actions_adddup2(&files_, death, death_fd);
    if (death_fd != STDIN_FILENO) ::posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

}  // namespace

std::string text_of(const Ending& ending) {
  if (!ending.by_signal) return cat("exit code ", ending.code);
  const char* name = ::strsignal(ending.code);
  return cat("signal ", ending.code, " (", name ? name : "unknown", ")");
}

Result<Child> Child::start(const Command& command) {
  TROUPE_CHECK(!command.argv.empty(), "a command without words");
  auto out = make_pipe(), err = make_pipe(), death = make_pipe();
  for (const auto* pipe : {&out, &err, &death})
    if (!*pipe) return tl::unexpected(pipe->error());
  std::vector<char*> argv;
  for (const std::string& word : command.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

  SpawnSettings settings(out->write.get(), err->write.get(), death->read.get(), command.death_fd);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, argv[0], &settings.files_, &settings.attributes_, argv.data(), ::environ);
  if (error != 0)
    return fail(error == ENOENT || error == EACCES ? ErrorKind::missing : ErrorKind::exhausted,
                cat("cannot start ", command.argv[0], ": ", std::strerror(error)));
  // Not reaped yet, so that the number is still this process's.
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    const int why = errno;
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return fail(ErrorKind::missing, cat("cannot watch a process: ", std::strerror(why),
                                        "; the launcher needs pidfd_open, which Linux has since 5.3"));
  }
  for (int fd : {out->read.get(), err->read.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return Child(pid, pidfd, std::move(out->read), std::move(err->read), std::move(death->write));
}

void Child::signal(int number) const {
  if (!reaped_) ::kill(-pid_, number);
}

Ending Child::reap() {
  // What it started itself and left behind is in its group, whose number is taken until the process is reaped.
  ::kill(-pid_, SIGKILL);
  int status = 0;
  pid_t got = -1;
  do got = ::waitpid(pid_, &status, 0);
  while (got < 0 && errno == EINTR);
  TROUPE_CHECK(got == pid_, "waitpid gave ", got, " for ", pid_);
  reaped_ = true;
  return WIFSIGNALED(status) ? Ending{true, WTERMSIG(status)} : Ending{false, WEXITSTATUS(status)};
}

}  // namespace troupe::launch
