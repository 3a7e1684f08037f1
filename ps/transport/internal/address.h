#pragma once
#include <string>

#include <troupe/kernels/base/result.h>

/// Addresses as ZeroMQ writes them: "tcp://10.0.0.7:4000", "tcp://[::1]:4000", "tcp://*:0", "ipc:///run/troupe/0".
namespace troupe::ps {

struct TcpAddress {
  std::string host;  ///< an IP without brackets, "*", an interface or a name
  std::string port;  ///< decimal; "0" or "*": chosen by the system
};

bool is_ipc(const std::string& address);
/// An error that shows the address where it is not "tcp://HOST:PORT" with a port up to 65535.
Result<TcpAddress> parse_tcp(const std::string& address);
std::string to_string(const TcpAddress& address);

/// "HOST:PORT" as people type it, with "tcp://" put before it; full addresses stay what they are.
std::string with_scheme(const std::string& address);

/// Only processes of this host can connect: ipc, 127.0.0.0/8, ::1.
bool is_local(const std::string& address);
/// Listens on all interfaces: "*", 0.0.0.0, [::].
bool is_wildcard(const std::string& host);

/// Whether ZeroMQ needs IPv6 for it: IPv6 literals, "*" (which then takes both families), and names that have no IPv4
/// address. Asks the name service about names, which may take time.
bool wants_ipv6(const std::string& address);

/// An IP by which others reach this host, for somebody who listens on all interfaces: that of the interface towards
/// `towards` (an address, may be empty), else the first that is up and not loopback, IPv4 before IPv6. Never
/// a name. Loopback where there is nothing else.
std::string reachable_ip(const std::string& towards);

}  // namespace troupe::ps
