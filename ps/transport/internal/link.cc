#include <troupe/ps/transport/internal/link.h>

#include <troupe/ps/transport/internal/socket_options.h>

namespace troupe::ps {
namespace {

// So many messages of one socket before the others have their turn.
constexpr size_t kBatch = 64;

uint16_t event_of(const zmq::message_t& frame) {
  uint16_t event = 0;
  if (frame.size() >= sizeof event) std::memcpy(&event, frame.data(), sizeof event);
  return event;
}

}  // namespace

Link::Link(PeerName peer, const LinkOptions& options, std::shared_ptr<Wakeup> wakeup, Traffic& traffic)
    : peer_(std::move(peer)),
      options_(options),
      traffic_(traffic),
      bell_(std::make_shared<Bell>(std::move(wakeup))),
      window_(std::make_shared<SendWindow>(options.window_bytes, bell_)),
      queue_(options.queue) {
  if (!peer_.key.empty()) key_role_ = options_.keys->allowed.at(peer_.key);
}

void Link::post(Outgoing message) {
  const size_t bytes = message.bytes();
  std::lock_guard lock(mutex_);
  if (retired()) return count(traffic_.dropped_unreachable);
  if (queue_.empty() && socket_ && window_->open()) {
    const Handed handed = hand_over(*socket_, message, window_);
    count_handed(handed, bytes);
    // Sending may have seen that something came in, of which the descriptor then does not tell. To ask costs system
    // calls: the I/O thread, which sends many messages while it hands over what came in, asks once afterwards.
    if (handed != Handed::no_room) {
      if (std::this_thread::get_id() == io_thread_)
        sent_here_ = true;
      else if (socket_->get(zmq::sockopt::events) & ZMQ_POLLIN)
        bell_->ring();
      return;
    }
  }
  const auto pushed = queue_.push(std::move(message));
  if (pushed.repeated) count(traffic_.dropped_repeated);
  if (pushed.dropped) count(traffic_.dropped_full, static_cast<int64_t>(pushed.dropped));
  if (socket_ && !window_->open())
    window_->want();
  else
    bell_->ring();
}

bool Link::more() {
  if (std::exchange(sent_here_, false)) {
    std::lock_guard lock(mutex_);
    more_ |= socket_ && (socket_->get(zmq::sockopt::events) & ZMQ_POLLIN);
  }
  return more_;
}

std::shared_ptr<SharedSender> Link::ring() const {
  std::lock_guard lock(ring_mutex_);
  return ring_;
}

void Link::set_ring(std::shared_ptr<SharedSender> ring) {
  std::lock_guard lock(ring_mutex_);
  ring_.swap(ring);
}

void Link::retire() {
  set_ring(nullptr);
  std::lock_guard lock(mutex_);
  if (retired_.exchange(true)) return;
  count(traffic_.dropped_unreachable, static_cast<int64_t>(queue_.messages()));
  queue_.clear();
  bell_->ring();
}

bool Link::open(zmq::context_t& context) try {
  socket_.emplace(context, zmq::socket_type::dealer);
  set_common_options(*socket_, options_, peer_.address);
  if (!peer_.key.empty()) {
    socket_->set(zmq::sockopt::curve_serverkey, peer_.key);
    socket_->set(zmq::sockopt::curve_publickey, options_.keys->public_key);
    socket_->set(zmq::sockopt::curve_secretkey, options_.keys->secret_key);
  }
  // Messages for a peer that is not there wait in our queue, which knows priorities and a bound in bytes.
  socket_->set(zmq::sockopt::immediate, 1);
  socket_->set(zmq::sockopt::reconnect_ivl, options_.reconnect_ms);
  socket_->set(zmq::sockopt::reconnect_ivl_max, std::max(1000, options_.reconnect_ms));
  socket_->set(zmq::sockopt::connect_timeout, 3000);
  const std::string events = "inproc://link-" + std::to_string(reinterpret_cast<uintptr_t>(this));
  zmq_socket_monitor(socket_->handle(), events.c_str(),
                     ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                         ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
  monitor_.emplace(context, zmq::socket_type::pair);
  monitor_->connect(events);
  socket_->connect(peer_.address);
  events_wait_ = true;
  socket_fd_ = socket_->get(zmq::sockopt::fd);
  monitor_fd_ = monitor_->get(zmq::sockopt::fd);
  return true;
} catch (const zmq::error_t&) {  // no more files, or an address that is none: the next message tries again
  socket_.reset();
  monitor_.reset();
  count(traffic_.dropped_unreachable, static_cast<int64_t>(queue_.messages()));
  queue_.clear();
  return false;
}

void Link::serve(zmq::context_t& context, std::vector<Incoming>& received) {
  std::lock_guard lock(mutex_);
  if (!socket_ && (queue_.empty() || retired() || !open(context))) return;
  io_thread_ = std::this_thread::get_id();
  Incoming message;
  while (received.size() < kBatch && receive(*socket_, false, options_.max_message_bytes, message)) {
    message.key_role = key_role_;
    received.push_back(std::move(message));
  }
  if (queue_.empty() && received.size() < kBatch) return;  // the descriptor tells of what comes later
  pump();
  const int events = socket_->get(zmq::sockopt::events);
  more_ |= (events & ZMQ_POLLIN) || ((events & ZMQ_POLLOUT) && !queue_.empty() && window_->open());
}

void Link::pump() {
  while (!queue_.empty()) {
    if (!window_->open()) return window_->want();
    auto first = queue_.pop();
    const size_t bytes = first.mapped().bytes();
    const Handed handed = hand_over(*socket_, first.mapped(), window_);
    count_handed(handed, bytes);
    if (handed == Handed::no_room) return queue_.put_back(std::move(first));
  }
}

void Link::count_handed(Handed handed, size_t bytes) {
  if (handed == Handed::gone) count(traffic_.dropped_unreachable);
  if (handed != Handed::yes) return;
  count(traffic_.sent_messages);
  count(traffic_.sent_bytes, static_cast<int64_t>(bytes));
}

std::vector<Link::Event> Link::events() {
  std::vector<Event> found;
  if (!std::exchange(events_wait_, false)) return found;
  zmq::message_t frame;
  while (monitor_ && zmq_msg_recv(frame.handle(), monitor_->handle(), ZMQ_DONTWAIT) >= 0) {
    const uint16_t event = event_of(frame);
    while (frame.more() && zmq_msg_recv(frame.handle(), monitor_->handle(), ZMQ_DONTWAIT) >= 0) {
    }
    const bool was_connected = connected_.exchange(event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
    found.push_back(connected() ? Event::connected : was_connected ? Event::lost : Event::refused);
  }
  return found;
}

void Link::close(int linger_ms) {
  std::lock_guard lock(mutex_);
  if (!socket_) return;
  zmq_socket_monitor(socket_->handle(), nullptr, 0);
  socket_->set(zmq::sockopt::linger, linger_ms);
  socket_.reset();
  monitor_->set(zmq::sockopt::linger, 0);
  monitor_.reset();
  socket_fd_ = monitor_fd_ = -1;
  connected_ = false;
}

bool Link::idle() {
  std::lock_guard lock(mutex_);
  return queue_.empty() || !connected();
}

Link::Depth Link::depth() {
  std::lock_guard lock(mutex_);
  return {queue_.messages(), queue_.bytes(), window_->held_bytes()};
}

}  // namespace troupe::ps
