#include <troupe/ps/transport/reach.h>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/text.h>
#include <troupe/ps/transport/internal/address.h>

namespace troupe::ps {
namespace {

/// 0, or the error.
int connect_to(int family, const sockaddr* to, socklen_t size, std::chrono::milliseconds patience) {
  const FileDescriptor probe(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (probe.get() < 0) return errno;
  if (::connect(probe.get(), to, size) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd file{probe.get(), POLLOUT, 0};
  if (::poll(&file, 1, static_cast<int>(patience.count())) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(probe.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

const char* advice(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ENOENT: return ": nothing listens there; is this its address, and does it run?";
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH: return ": is the host up, and does no firewall stand between?";
    default: return "";
  }
}

Status verdict(const std::string& where, int error) {
  if (error == 0) return {};
  return fail(ErrorKind::missing, cat("no connection to ", where, ": ", std::strerror(error), advice(error)));
}

}  // namespace

Status try_to_reach(const std::string& address, std::chrono::milliseconds patience) {
  if (is_ipc(address)) {
    const std::string path = address.substr(std::strlen("ipc://"));
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    if (path.size() >= sizeof to.sun_path) return verdict(path, ENAMETOOLONG);
    path.copy(to.sun_path, path.size());
    return verdict(path, connect_to(AF_UNIX, reinterpret_cast<const sockaddr*>(&to), sizeof to, patience));
  }
  const auto tcp = parse_tcp(address);
  if (!tcp) return tl::unexpected(tcp.error());
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(tcp->host.c_str(), tcp->port.c_str(), &hints, &found); error != 0)
    return fail(ErrorKind::missing, cat("the name ", tcp->host, " leads nowhere: ", ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  int last = ENETUNREACH;
  for (const addrinfo* a = all.get(); a && last != 0; a = a->ai_next)
    last = connect_to(a->ai_family, a->ai_addr, a->ai_addrlen, patience);
  return verdict(cat(tcp->host, " port ", tcp->port), last);
}

}  // namespace troupe::ps
