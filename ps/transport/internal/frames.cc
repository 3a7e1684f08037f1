#include <troupe/ps/transport/internal/frames.h>

#include <atomic>
#include <cerrno>
#include <utility>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace troupe::ps {
namespace {

// ZeroMQ knows no limit on the parts of a message; this one is far above what the largest snapshot has.
constexpr size_t kMaxParts = 1 << 16;

/// A message in ZeroMQ's hands, and how many of its parts it still has; one reference more is the giver's.
struct Lent final : SendWindow::Spent {
  Lent(std::shared_ptr<SendWindow> w, Outgoing m) : window(std::move(w)), message(std::move(m)) {}

  std::shared_ptr<SendWindow> window;
  Outgoing message;
  size_t bytes = 0;
  std::atomic<size_t> references{0};

  void drop(size_t count) {
    if (references.fetch_sub(count) > count) return;
    const auto kept = std::move(window);
    const size_t given = bytes;
    message.frames.payloads.clear();  // tensors go at once
    kept->leave(this);
    kept->give_back(given);
  }
};

/// A call that came to nothing because of a signal, once more: to leave a message in its midst would cost the next one.
template <class Call>
int uninterrupted(const Call& call) {
  int result = 0;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

// ThreadSanitizer sees nothing of libzmq, which orders what it is given before what it gives back.
void given([[maybe_unused]] Lent* lent) {
#ifdef __SANITIZE_THREAD__
  __tsan_release(lent);
#endif
}

void returned(void*, void* lent) {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(lent);
#endif
  static_cast<Lent*>(lent)->drop(1);
}

int send_part(zmq::socket_ref socket, Lent* lent, const std::byte* data, size_t bytes, bool more) {
  zmq_msg_t part;
  zmq_msg_init_data(&part, const_cast<std::byte*>(data), bytes, returned, lent);
  const int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
  const int sent = uninterrupted([&] { return zmq_msg_send(&part, socket.handle(), flags); });
  const int error = errno;
  if (sent < 0) zmq_msg_close(&part);
  return sent < 0 ? error : 0;
}

/// 0, or why the connection cannot be written to.
int send_route(zmq::socket_ref socket, const std::string& route) {
  if (route.empty()) return 0;
  constexpr int kFlags = ZMQ_DONTWAIT | ZMQ_SNDMORE;
  const int sent = uninterrupted([&] { return zmq_send(socket.handle(), route.data(), route.size(), kFlags); });
  return sent < 0 ? errno : 0;
}

struct ReceivedPart {
  explicit ReceivedPart(zmq::message_t&& from)
      : part(std::move(from)), buffer(static_cast<std::byte*>(part.data()), part.size(), Device{}, [](Buffer&) {}) {}
  zmq::message_t part;
  Buffer buffer;
};

Tensor tensor_over(zmq::message_t&& part) {
  auto received = std::make_shared<ReceivedPart>(std::move(part));
  const auto bytes = static_cast<int64_t>(received->buffer.bytes());
  return Tensor(BufferPtr(received, &received->buffer), 0, Shape{bytes}, DType::u8);
}

/// As the ZapHandler tagged the connection.
std::optional<KeyRole> key_role_of(zmq::message_t& head) {
  const char* role = zmq_msg_gets(head.handle(), "User-Id");
  return role ? key_role_named(role) : std::nullopt;
}

bool receive_part(zmq::socket_ref socket, zmq::message_t& part) {
  return uninterrupted([&] { return zmq_msg_recv(part.handle(), socket.handle(), ZMQ_DONTWAIT); }) >= 0;
}

}  // namespace

Handed hand_over(zmq::socket_ref socket, Outgoing& message, const std::shared_ptr<SendWindow>& window) {
  if (const int error = send_route(socket, message.route)) return error == EAGAIN ? Handed::no_room : Handed::gone;
  window->sweep();
  auto* lent = new Lent(window, std::move(message));
  const auto& [head, payloads] = lent->message.frames;
  lent->bytes = lent->message.bytes();
  const size_t parts = 1 + payloads.size();
  lent->references = parts + 1;
  window->take(lent->bytes);
  given(lent);

  int error = send_part(socket, lent, head.data(), head.size(), !payloads.empty());
  if (error) {
    message = std::move(lent->message);
    lent->drop(parts);
    return error == EAGAIN ? Handed::no_room : Handed::gone;
  }
  size_t given = 1;
  for (; given < parts && !error; ++given) {
    const Tensor& payload = payloads[given - 1];
    error = send_part(socket, lent, payload.raw(), payload.bytes(), given + 1 < parts);
  }
  lent->drop(parts - given + 1);
  return error ? Handed::gone : Handed::yes;
}

bool receive(zmq::socket_ref socket, bool routed, size_t max_bytes, Incoming& message) {
  zmq::message_t part;
  if (!receive_part(socket, part)) return false;
  message = Incoming{};
  if (routed) {
    message.route = part.to_string();
    if (!part.more() || !receive_part(socket, part)) return true;
  }
  bool more = part.more();
  message.bytes = part.size();
  if (routed) message.key_role = key_role_of(part);
  message.head = std::move(part);
  for (size_t parts = 1; more; ++parts) {
    if (!receive_part(socket, part)) break;
    more = part.more();
    message.bytes += part.size();
    message.too_long |= message.bytes > max_bytes || parts > kMaxParts;
    if (message.too_long)
      message.payloads.clear();
    else
      message.payloads.push_back(tensor_over(std::exchange(part, {})));
  }
  message.too_long |= message.bytes > max_bytes;
  return true;
}

std::string peer_of(const zmq::message_t& head) {
  const char* address = zmq_msg_gets(const_cast<zmq::message_t&>(head).handle(), "Peer-Address");
  return address ? address : "?";
}

}  // namespace troupe::ps
