#include <troupe/ps/transport/internal/handshakes.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>
#include <vector>

namespace troupe::ps {
namespace {

constexpr const char* kEvents = "inproc://router-events";
constexpr int kFailed = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
constexpr int kClosed = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED;

/// Empty where the system does not tell.
std::string peer_of(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  char text[INET6_ADDRSTRLEN] = "";
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "";
  if (peer.ss_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(peer).sin_addr, text, sizeof text);
  else if (peer.ss_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr, text, sizeof text);
  return text;
}

}  // namespace

Handshakes::Handshakes(zmq::context_t& context, zmq::socket_t& socket,
                       std::function<void(const std::string& peer)> failed)
    : socket_(socket), failed_(std::move(failed)), events_(context, zmq::socket_type::pair) {
  zmq_socket_monitor(socket_.handle(), kEvents, ZMQ_EVENT_ACCEPTED | kClosed | kFailed);
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(kEvents);
  fd_ = events_.get(zmq::sockopt::fd);
}

void Handshakes::close() { zmq_socket_monitor(socket_.handle(), nullptr, 0); }

std::optional<Handshakes::Event> Handshakes::next() {
  zmq::message_t frame;
  if (zmq_msg_recv(frame.handle(), events_.handle(), ZMQ_DONTWAIT) < 0) return std::nullopt;
  Event event;
  int32_t value = 0;
  if (frame.size() >= sizeof event.what + sizeof value) {
    std::memcpy(&event.what, frame.data(), sizeof event.what);
    std::memcpy(&value, frame.data<std::byte>() + sizeof event.what, sizeof value);
  }
  event.value = value;
  while (frame.more() && zmq_msg_recv(frame.handle(), events_.handle(), ZMQ_DONTWAIT) >= 0) {
  }
  return event;
}

void Handshakes::serve() {
  // A descriptor whose closing is told already may have been another's when it was asked.
  std::vector<Event> all;
  std::map<int, std::string> asked;
  while (const auto event = next()) {
    all.push_back(*event);
    if (event->what == ZMQ_EVENT_ACCEPTED) asked[event->value] = peer_of(event->value);
    if (event->what & kClosed && asked.contains(event->value)) asked[event->value].clear();
  }
  for (const Event& event : all) {
    if (event.what == ZMQ_EVENT_ACCEPTED) peers_[event.value] = asked[event.value];
    if (event.what & kFailed && std::exchange(failing_, true)) failed_("?");  // of the one before nothing was closed
    if (!(event.what & kClosed)) continue;
    const auto closed = peers_.extract(event.value);
    if (std::exchange(failing_, false)) failed_(closed && !closed.mapped().empty() ? closed.mapped() : "?");
  }
}

}  // namespace troupe::ps
