#pragma once
#include <string>

#include <troupe/kernels/base/result.h>

namespace troupe::launch {

/// The address of this machine's interface that routes to `host` (a name or an address): what that host can reach us
/// by, where nothing translates addresses between. Asks the kernel's routing table; no packet is sent, but a name is
/// looked up. Fails where the name is not known or no route leads there.
Result<std::string> own_address_towards(const std::string& host);

/// Whether `address` is one of the machine's loopback: 127.x.y.z, ::1, localhost.
bool is_loopback(const std::string& address);

/// "10.0.0.1:7077", "[fd00::1]:0".
std::string with_port(const std::string& address, int port);

}  // namespace troupe::launch
