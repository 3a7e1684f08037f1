#include <troupe/ps/transport/internal/address.h>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList look_up(const std::string& host, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

std::string ip_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  else if (address->sa_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  return text;
}

bool is_ipv6_literal(const std::string& host) {
  in6_addr ignored;
  return ::inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

bool is_ipv4_literal(const std::string& host) {
  in_addr ignored;
  return ::inet_pton(AF_INET, host.c_str(), &ignored) == 1;
}

/// A datagram socket that is "connected" sends nothing, but the kernel chooses the interface.
std::string ip_towards(const std::string& address) {
  const auto tcp = parse_tcp(address);
  if (!tcp) return "";
  const AddressList to = look_up(tcp->host, tcp->port, 0);
  for (const addrinfo* a = to.get(); a; a = a->ai_next) {
    const FileDescriptor probe(::socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage mine{};
    socklen_t size = sizeof mine;
    if (::connect(probe.get(), a->ai_addr, a->ai_addrlen) == 0 &&
        ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&mine), &size) == 0)
      return ip_of(reinterpret_cast<sockaddr*>(&mine));
  }
  return "";
}

std::string ip_of_interface(int family) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != family) continue;
    if (!(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK)) continue;
    const std::string ip = ip_of(i->ifa_addr);
    if (!ip.starts_with("fe80:")) return ip;  // link-local: of no use without the interface's name
  }
  return "";
}

}  // namespace

bool is_ipc(const std::string& address) { return address.starts_with("ipc://"); }

Result<TcpAddress> parse_tcp(const std::string& address) {
  const auto wrong = [&](const char* why) {
    return fail(ErrorKind::invalid,
                cat("address \"", address, "\": ", why, "; write tcp://HOST:PORT, tcp://[IPv6]:PORT or ipc:///PATH"));
  };
  if (!address.starts_with("tcp://")) return wrong("neither tcp:// nor ipc://");
  const std::string rest = address.substr(6);
  const size_t colon = rest.rfind(':');
  if (colon == 0) return wrong("has no host");
  if (colon == std::string::npos) return wrong("has no port");
  TcpAddress result{rest.substr(0, colon), rest.substr(colon + 1)};
  if (result.host.front() == '[') {
    if (result.host.back() != ']') return wrong("\"[\" without \"]\"");
    result.host = result.host.substr(1, result.host.size() - 2);
  } else if (result.host.find(':') != std::string::npos) {
    return wrong("an IPv6 address needs brackets");
  }
  if (result.port == "*") result.port = "0";
  unsigned port = 0;
  const auto [end, error] = std::from_chars(result.port.data(), result.port.data() + result.port.size(), port);
  if (error != std::errc{} || end != result.port.data() + result.port.size() || port > 65535)
    return wrong("the port is not a number from 0 to 65535");
  return result;
}

std::string to_string(const TcpAddress& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return cat("tcp://", brackets ? "[" : "", address.host, brackets ? "]" : "", ':', address.port);
}

std::string with_scheme(const std::string& address) {
  return address.empty() || address.find("://") != std::string::npos ? address : "tcp://" + address;
}

bool is_local(const std::string& address) {
  if (is_ipc(address)) return true;
  const auto tcp = parse_tcp(address);
  return tcp && (tcp->host == "::1" || tcp->host == "localhost" ||
                 (is_ipv4_literal(tcp->host) && tcp->host.starts_with("127.")));
}

bool is_wildcard(const std::string& host) { return host == "*" || host == "0.0.0.0" || host == "::"; }

bool wants_ipv6(const std::string& address) {
  const auto tcp = parse_tcp(address);
  if (!tcp || is_ipv4_literal(tcp->host)) return false;
  if (tcp->host == "*" || is_ipv6_literal(tcp->host)) return true;
  const AddressList found = look_up(tcp->host, tcp->port, 0);
  for (const addrinfo* a = found.get(); a; a = a->ai_next)
    if (a->ai_family == AF_INET) return false;
  return found != nullptr;
}

std::string reachable_ip(const std::string& towards) {
  for (const std::string& ip : {ip_towards(towards), ip_of_interface(AF_INET), ip_of_interface(AF_INET6)})
    if (!ip.empty()) return ip;
  return "127.0.0.1";
}

}  // namespace troupe::ps
