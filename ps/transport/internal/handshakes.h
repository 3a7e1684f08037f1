#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <zmq.hpp>

namespace troupe::ps {

/// Watches the connections that a socket takes, and tells who did not get through the handshake. ZeroMQ says that
/// somebody did not, and then which descriptor it closed, but not whose that was: so each is asked for its peer when it
/// is taken. For the thread that owns the socket.
class Handshakes {
 public:
  /// `failed`: with the peer's IP; "?" where the connection was closed before it could be asked.
  Handshakes(zmq::context_t& context, zmq::socket_t& socket, std::function<void(const std::string& peer)> failed);

  /// To be polled.
  int fd() const { return fd_; }
  /// Takes what there is.
  void serve();
  /// Before the socket goes.
  void close();

 private:
  struct Event {
    uint16_t what = 0;
    int value = 0;
  };
  std::optional<Event> next();

  zmq::socket_t& socket_;
  const std::function<void(const std::string&)> failed_;
  zmq::socket_t events_;
  int fd_ = -1;
  std::map<int, std::string> peers_;  // by descriptor, of connections that were taken and not closed
  bool failing_ = false;              // the next that is closed is the one
};

}  // namespace troupe::ps
