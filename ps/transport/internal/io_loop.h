#pragma once
#include <poll.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/transport/internal/link.h>
#include <troupe/ps/transport/internal/zap.h>

namespace troupe::ps {

struct IoOptions {
  std::string listen;  ///< empty: no ROUTER
  LinkOptions link;
  int linger_ms = 0;
  uint64_t seed = 0;  ///< of the jitter
};

/// The thread that owns the sockets of a process: one ROUTER that others connect to, and a Link for each peer. Carries
/// opaque messages; knows nothing of envelopes, endpoints and nodes.
class IoLoop {
 public:
  struct Handlers {
    std::function<void(Incoming&)> message;  ///< on the I/O thread
    std::function<void(Link&, Link::Event)> event;
    /// Somebody did not get through the handshake of the ROUTER; `key`: because of his key.
    std::function<void(bool key, const std::string& peer, const std::string& why)> refused;
  };
  /// Listens; nothing is received before `start`.
  static Result<std::unique_ptr<IoLoop>> open(IoOptions options, Handlers handlers, Traffic& traffic);
  ~IoLoop() { close(); }

  void start();

  /// Where the ROUTER listens, with its port.
  const std::string& listens_on() const { return listens_on_; }

  /// From any thread: the link to this peer, made where there is none.
  std::shared_ptr<Link> link(const PeerName& peer);
  /// From any thread: closes all links but those to `peers`.
  void keep(const std::set<PeerName>& peers);
  std::vector<std::shared_ptr<Link>> links();

  /// From any thread: an answer over a connection that the peer made (`route` names it).
  void answer(Outgoing message);

  /// Sends what waits for connected peers, for at most linger_ms, then closes everything. No handler is called
  /// after. Not from the I/O thread.
  void close();

 private:
  IoLoop(IoOptions options, Handlers handlers, Traffic& traffic);

  Status bind();
  void use_keys();
  void run();
  void drain();
  void refresh();
  void serve_links();
  void serve_router();
  void serve_handshakes();
  bool send_answers();
  void wait(int timeout_ms);
  bool more();
  bool idle();

  const IoOptions options_;
  const Handlers handlers_;
  Traffic& traffic_;
  const std::shared_ptr<Wakeup> wakeup_ = std::make_shared<Wakeup>();
  const std::shared_ptr<Bell> router_bell_ = std::make_shared<Bell>(wakeup_);
  const std::shared_ptr<SendWindow> answer_window_;
  zmq::context_t context_{1};
  std::optional<zmq::socket_t> router_, router_monitor_;
  std::optional<ZapHandler> zap_;
  std::string listens_on_;

  std::mutex mutex_;  ///< guards what follows
  std::map<PeerName, std::shared_ptr<Link>> links_;
  std::vector<std::shared_ptr<Link>> retired_;
  SendQueue answers_;
  uint64_t made_ = 0;

  std::atomic<bool> changed_{false};  ///< links_ or retired_
  std::atomic<bool> stopping_{false};

  std::atomic<std::thread::id> io_thread_{};

  // The I/O thread's alone.
  std::vector<std::shared_ptr<Link>> served_;  ///< as links_ when it last looked
  std::vector<pollfd> files_;
  bool router_more_ = true, handshakes_ = true;  ///< there is something to serve
  std::thread thread_;
};

}  // namespace troupe::ps
