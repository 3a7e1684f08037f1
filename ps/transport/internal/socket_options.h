#pragma once
#include <string>
#include <zmq.hpp>

#include <troupe/ps/transport/internal/link.h>

namespace troupe::ps {

/// What every socket between processes has: finite queues, a largest frame, heartbeats, an end of patience.
/// `address` is where the socket will bind or connect.
void set_common_options(zmq::socket_t& socket, const LinkOptions& options, const std::string& address);

}  // namespace troupe::ps
