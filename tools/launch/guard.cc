#include "guard.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include <troupe/kernels/base/text.h>

namespace troupe::launch {
namespace {

struct Watched {
  pid_t pid = 0;
  int pidfd = -1;
};

/// A message that carries a number and, beside it, a descriptor: of `watched`, which outlives it.
struct DescriptorMessage {
  explicit DescriptorMessage(Watched& watched) : data{&watched.pid, sizeof watched.pid} {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  DescriptorMessage(const DescriptorMessage&) = delete;

  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec data;
  msghdr message{};
};

void send_watched(int socket, Watched watched) {
  DescriptorMessage sent(watched);
  msghdr& message = sent.message;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &watched.pidfd, sizeof(int));
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

/// False at the end: the launcher is gone.
bool receive_watched(int socket, std::vector<Watched>& all) {
  Watched watched;
  DescriptorMessage received(watched);
  msghdr& message = received.message;
  const ssize_t n = ::recvmsg(socket, &message, 0);
  if (n < 0 && errno == EINTR) return true;
  if (n != sizeof watched.pid) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return true;
  std::memcpy(&watched.pidfd, CMSG_DATA(header), sizeof(int));
  all.push_back(watched);
  return true;
}

/// Waits until `socket` (if any) or a process has something, then forgets the processes that have ended. Whether the
/// socket has something.
bool wait_for_any(int socket, std::vector<Watched>& all, int timeout_ms) {
  std::vector<pollfd> polls{{socket, POLLIN, 0}};
  for (const Watched& watched : all) polls.push_back({watched.pidfd, POLLIN, 0});
  ::poll(polls.data(), polls.size(), timeout_ms);
  std::vector<Watched> alive;
  for (size_t i = 0; i < all.size(); ++i) {
    if (polls[i + 1].revents == 0) {
      alive.push_back(all[i]);
    } else {
      ::close(all[i].pidfd);
    }
  }
  all = std::move(alive);
  return socket >= 0 && polls[0].revents != 0;
}

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

[[noreturn]] void guard(int socket, std::chrono::milliseconds patience) {
  std::vector<Watched> all;
  for (bool launcher = true; launcher;)
    if (wait_for_any(socket, all, -1)) launcher = receive_watched(socket, all);
  const int64_t end = now_ms() + patience.count();
  for (int64_t now = now_ms(); !all.empty() && now < end; now = now_ms())
    wait_for_any(-1, all, static_cast<int>(end - now));
  for (const Watched& watched : all) {
    // The group exists, with this number, as long as its leader does.
    ::kill(-watched.pid, SIGKILL);
    ::syscall(SYS_pidfd_send_signal, watched.pidfd, SIGKILL, nullptr, 0);
  }
  ::_exit(0);
}

/// What the guard has of the launcher: nothing but its socket. Whoever reads the launcher's output does not wait for
/// the guard, and Ctrl-C does not reach it.
void leave_launcher(int socket) {
  ::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(nothing, fd);
  if (socket > 3) ::syscall(SYS_close_range, 3, socket - 1, 0);
  ::syscall(SYS_close_range, socket + 1, ~0u, 0);
}

}  // namespace

Result<Guard> Guard::start(std::chrono::milliseconds patience) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(ErrorKind::exhausted, cat("cannot make a socket pair: ", std::strerror(errno)));
  FileDescriptor ours(ends[0]), its(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return fail(ErrorKind::exhausted, cat("cannot start a process: ", std::strerror(errno)));
  if (pid == 0) {
    leave_launcher(its.get());
    guard(its.get(), patience);
  }
  return Guard(pid, std::move(ours));
}

Guard::~Guard() {
  if (socket_.get() < 0) return;  // moved from
  socket_ = FileDescriptor(-1);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::watch(pid_t pid, int pidfd) const { send_watched(socket_.get(), {pid, pidfd}); }

}  // namespace troupe::launch
