#include <troupe/ps/transport/internal/socket_options.h>

#include <troupe/ps/transport/internal/address.h>

namespace troupe::ps {

void set_common_options(zmq::socket_t& socket, const LinkOptions& options, const std::string& address) {
  // The windows bound what waits here by bytes; these are the second fence, against a program's own mistakes.
  socket.set(zmq::sockopt::sndhwm, 4096);
  socket.set(zmq::sockopt::rcvhwm, 256);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<int64_t>(options.max_message_bytes));
  socket.set(zmq::sockopt::ipv6, wants_ipv6(address));
  socket.set(zmq::sockopt::handshake_ivl, 5000);
  if (options.heartbeat_ms > 0) {
    socket.set(zmq::sockopt::heartbeat_ivl, static_cast<int>(options.heartbeat_ms));
    socket.set(zmq::sockopt::heartbeat_timeout, static_cast<int>(options.heartbeat_ms * 4));
  }
}

}  // namespace troupe::ps
