#include "route.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/text.h>

namespace troupe::launch {
namespace {

/// A UDP socket that is connected has the source address that its packets would have.
Result<std::string> source_address(const addrinfo& to) {
  const FileDescriptor socket(::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (socket.get() < 0 || ::connect(socket.get(), to.ai_addr, to.ai_addrlen) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    return fail(ErrorKind::missing, std::strerror(errno));
  char text[NI_MAXHOST];
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    return fail(ErrorKind::missing, "the address has no text");
  return std::string(text);
}

}  // namespace

Result<std::string> own_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), "9", &hints, &found); error != 0)
    return fail(ErrorKind::missing, cat(host, ": ", ::gai_strerror(error),
                                        "; say with --listen by which address of this "
                                        "machine the hosts reach it"));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  std::string why;
  for (const addrinfo* to = found; to != nullptr; to = to->ai_next) {
    auto address = source_address(*to);
    if (address) return address;
    why = address.error().message;
  }
  return fail(ErrorKind::missing, cat("no route leads to ", host, ": ", why));
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

std::string with_port(const std::string& address, int port) {
  return address.find(':') == std::string::npos ? cat(address, ':', port) : cat('[', address, "]:", port);
}

}  // namespace troupe::launch
