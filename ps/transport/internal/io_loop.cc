#include <troupe/ps/transport/internal/io_loop.h>

#include <chrono>
#include <utility>

#include <troupe/kernels/base/random.h>
#include <troupe/kernels/base/text.h>
#include <troupe/ps/transport/internal/address.h>
#include <troupe/ps/transport/internal/socket_options.h>

namespace troupe::ps {
namespace {

using Clock = std::chrono::steady_clock;

// So many messages of one socket before the others have their turn.
constexpr size_t kBatch = 64;
// The loop looks around so often without being called, should a call have been missed.
constexpr int kIdleMs = 500;

const char* advice(int error) {
  switch (error) {
    case EADDRINUSE: return "another program listens there; choose another port, or port 0 for a free one";
    case EADDRNOTAVAIL:
    case ENODEV: return "no interface of this host has that address; give one that it has, or * for all";
    case EACCES: return "not permitted; choose a port above 1023, or a folder that you may write";
    case ENOENT: return "the folder does not exist; make it first";
    case ENAMETOOLONG: return "the path is too long for a socket (107 characters); choose a shorter one";
    default: return "give an IP address of this host, or an ipc path";
  }
}

}  // namespace

Result<std::unique_ptr<IoLoop>> IoLoop::open(IoOptions options, Handlers handlers, Traffic& traffic) {
  std::unique_ptr<IoLoop> loop(new IoLoop(std::move(options), std::move(handlers), traffic));
  if (loop->wakeup_->fd() < 0)
    return fail(ErrorKind::exhausted, "no network: this process may not open more files; raise the limit (ulimit -n)");
  if (!loop->options_.listen.empty()) TROUPE_TRY(loop->bind());
  return loop;
}

void IoLoop::start() {
  thread_ = std::thread([this] { run(); });
}

IoLoop::IoLoop(IoOptions options, Handlers handlers, Traffic& traffic)
    : options_(std::move(options)),
      handlers_(std::move(handlers)),
      traffic_(traffic),
      answer_window_(std::make_shared<SendWindow>(options_.link.window_bytes, router_bell_)),
      answers_(options_.link.queue) {}

Status IoLoop::bind() {
  try {
    router_.emplace(context_, zmq::socket_type::router);
    set_common_options(*router_, options_.link, options_.listen);
    router_->set(zmq::sockopt::router_mandatory, true);
    if (options_.link.keys && !is_ipc(options_.listen)) use_keys();
    zmq_socket_monitor(router_->handle(), "inproc://router-events",
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL);
    router_monitor_.emplace(context_, zmq::socket_type::pair);
    router_monitor_->connect("inproc://router-events");
    router_->bind(options_.listen);
    listens_on_ = router_->get(zmq::sockopt::last_endpoint);
    return {};
  } catch (const zmq::error_t& error) {
    return fail(ErrorKind::invalid,
                cat("cannot listen on ", options_.listen, ": ", error.what(), ": ", advice(error.num())));
  }
}

void IoLoop::use_keys() {
  zap_.emplace(context_, options_.link.keys,
               [this](const std::string& peer, const std::string& why) { handlers_.refused(true, peer, why); });
  router_->set(zmq::sockopt::zap_domain, "troupe");
  router_->set(zmq::sockopt::curve_server, true);
  router_->set(zmq::sockopt::curve_secretkey, options_.link.keys->secret_key);
}

std::shared_ptr<Link> IoLoop::link(const PeerName& peer) {
  std::lock_guard lock(mutex_);
  auto& link = links_[peer];
  if (!link) {
    LinkOptions options = options_.link;
    // Peers of one that restarts would otherwise all come back in the same moment.
    options.reconnect_ms = 20 + static_cast<int>(Random(derive_seed(options_.seed, "reconnect", made_++)).below(30));
    link = std::make_shared<Link>(peer, options, wakeup_, traffic_);
    changed_ = true;
  }
  return link;
}

void IoLoop::keep(const std::set<PeerName>& peers) {
  std::lock_guard lock(mutex_);
  for (auto at = links_.begin(); at != links_.end();) {
    if (peers.contains(at->first)) {
      ++at;
      continue;
    }
    at->second->retire();
    retired_.push_back(std::move(at->second));
    at = links_.erase(at);
    changed_ = true;
  }
}

std::vector<std::shared_ptr<Link>> IoLoop::links() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Link>> all;
  for (const auto& [peer, link] : links_) all.push_back(link);
  return all;
}

void IoLoop::answer(Outgoing message) {
  if (stopping_) return count(traffic_.dropped_unreachable);
  {
    std::lock_guard lock(mutex_);
    const auto pushed = answers_.push(std::move(message));
    if (pushed.repeated) count(traffic_.dropped_repeated);
    if (pushed.dropped) count(traffic_.dropped_full, static_cast<int64_t>(pushed.dropped));
  }
  if (std::this_thread::get_id() == io_thread_)
    router_more_ = true;  // sent when what came in with the message that is answered is handed over
  else
    router_bell_->ring();
}

void IoLoop::close() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  wakeup_->wake();
  thread_.join();
  context_.close();
}

void IoLoop::run() {
  io_thread_ = std::this_thread::get_id();
  for (; !stopping_; wait(kIdleMs)) {
    serve_links();
    if (!router_) continue;
    if (std::exchange(handshakes_, false)) serve_handshakes();
    if (router_bell_->answer() | std::exchange(router_more_, false)) serve_router();
  }
  drain();
}

void IoLoop::drain() {
  const auto deadline = Clock::now() + std::chrono::milliseconds(options_.linger_ms);
  const auto left_ms = [&] {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    return static_cast<int>(std::max<int64_t>(0, left));
  };
  std::vector<Incoming> ignored;
  for (serve_links(); !idle() && left_ms() > 0; wait(std::min(left_ms(), 10)))
    for (const auto& link : served_) link->serve(context_, ignored), ignored.clear();
  if (router_) send_answers();
  for (const auto& link : served_) {
    link->close(left_ms());
    link->retire();
  }
  if (!router_) return;
  zmq_socket_monitor(router_->handle(), nullptr, 0);
  router_monitor_.reset();
  router_->set(zmq::sockopt::linger, left_ms());
  router_.reset();
  zap_.reset();
}

bool IoLoop::idle() {
  for (const auto& link : served_)
    if (!link->idle()) return false;
  return true;
}

void IoLoop::refresh() {
  if (!changed_.exchange(false)) return;
  std::vector<std::shared_ptr<Link>> retired;
  served_ = links();
  {
    std::lock_guard lock(mutex_);
    retired.swap(retired_);
  }
  for (const auto& link : retired) link->close(0);
}

void IoLoop::serve_links() {
  refresh();
  std::vector<Incoming> received;
  for (const auto& link : served_) {
    if (!link->called()) continue;
    link->serve(context_, received);
    for (const Link::Event event : link->events()) handlers_.event(*link, event);
    for (Incoming& message : received) handlers_.message(message);
    received.clear();
  }
}

void IoLoop::serve_router() {
  Incoming message;
  size_t taken = 0;
  for (; taken < kBatch && receive(*router_, true, options_.link.max_message_bytes, message); ++taken)
    handlers_.message(message);
  const bool sent = send_answers();
  // Whoever has just found the socket empty is told by its descriptor of what comes later; others must look.
  router_more_ = (taken == kBatch || sent) && (router_->get(zmq::sockopt::events) & ZMQ_POLLIN);
}

bool IoLoop::send_answers() {
  std::lock_guard lock(mutex_);
  const bool any = !answers_.empty();
  while (!answers_.empty()) {
    if (!answer_window_->open()) {
      answer_window_->want();
      break;
    }
    auto first = answers_.pop();
    const auto bytes = static_cast<int64_t>(first.mapped().bytes());
    // A peer that does not read its answers loses them, so that it does not keep others from theirs.
    if (hand_over(*router_, first.mapped(), answer_window_) != Handed::yes) {
      count(traffic_.dropped_unreachable);
      continue;
    }
    count(traffic_.sent_messages);
    count(traffic_.sent_bytes, bytes);
  }
  return any;
}

void IoLoop::serve_handshakes() {
  if (zap_) zap_->serve();
  zmq::message_t frame;
  while (zmq_msg_recv(frame.handle(), router_monitor_->handle(), ZMQ_DONTWAIT) >= 0) {
    while (frame.more() && zmq_msg_recv(frame.handle(), router_monitor_->handle(), ZMQ_DONTWAIT) >= 0) {
    }
    handlers_.refused(false, "?",
                      options_.link.keys ? "a connection without a key, or that expects another key here"
                                         : "a connection that does not speak ZeroMQ's protocol");
  }
}

bool IoLoop::more() {
  bool any = router_more_;
  for (const auto& link : served_) any |= link->more();
  return any;
}

void IoLoop::wait(int timeout_ms) {
  files_.assign(1, {wakeup_->fd(), POLLIN, 0});
  if (router_) {
    files_.push_back({router_->get(zmq::sockopt::fd), POLLIN, 0});
    files_.push_back({router_monitor_->get(zmq::sockopt::fd), POLLIN, 0});
    files_.push_back({zap_ ? zap_->fd() : -1, POLLIN, 0});
  }
  const size_t first = files_.size();
  for (const auto& link : served_) {  // a descriptor of -1 is passed over
    files_.push_back({link->socket_fd(), POLLIN, 0});
    files_.push_back({link->monitor_fd(), POLLIN, 0});
  }
  ::poll(files_.data(), files_.size(), more() ? 0 : timeout_ms);
  if (files_[0].revents) wakeup_->clear();
  router_more_ |= router_ && files_[1].revents;
  handshakes_ |= router_ && (files_[2].revents || files_[3].revents);
  for (size_t i = 0; i < served_.size(); ++i)
    served_[i]->told(files_[first + 2 * i].revents, files_[first + 2 * i + 1].revents);
}

}  // namespace troupe::ps
