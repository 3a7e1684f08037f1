#pragma once
#include <chrono>
#include <string>

#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// Whether something takes connections at `address` ("tcp://HOST:PORT", "ipc:///PATH") now, as seen from this host: an
/// error says what stands between, for people who wonder why nobody answers. Nothing is sent. Waits for the name
/// service, and at most `patience` for each address that the name has.
Status try_to_reach(const std::string& address, std::chrono::milliseconds patience);

}  // namespace troupe::ps
