#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include <troupe/ps/transport/internal/frames.h>
#include <troupe/ps/transport/internal/send_queue.h>
#include <troupe/ps/transport/internal/shared_sender.h>
#include <troupe/ps/transport/internal/traffic.h>
#include <troupe/ps/transport/keys.h>

namespace troupe::ps {

struct LinkOptions {
  SendQueue::Limits queue;
  size_t window_bytes = 0;
  size_t max_message_bytes = 0;
  int64_t heartbeat_ms = 0;
  int reconnect_ms = 0;              ///< first pause, with this link's jitter in it
  std::shared_ptr<const Keys> keys;  ///< null: none
};

/// Where a process listens, and the public key that it must prove to have (empty: none, as without keys and over ipc).
struct PeerName {
  std::string address, key;
  auto operator<=>(const PeerName&) const = default;
};

/// The way to one peer process: a DEALER socket that connects to the peer's ROUTER, connects again whenever the
/// connection breaks, and carries answers back. Messages are sent from the thread that posts them while nothing
/// waits; what must wait is sent by the I/O thread when ZeroMQ has given bytes back. The mutex makes the socket
/// one thread's at a time, as ZeroMQ demands.
///
/// The socket is made when the first message comes, so that processes which have nothing to say to each other are
/// not connected.
class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(PeerName peer, const LinkOptions& options, std::shared_ptr<Wakeup> wakeup, Traffic& traffic);
  ~Link() { retire(); }

  const PeerName& peer() const { return peer_; }
  /// Which node is at the other end, as the routes say; for reports.
  std::atomic<uint32_t> node{0xffffffff};

  /// From any thread. Never blocks; what finds no room is dropped and counted.
  void post(Outgoing message);
  /// The ring in shared memory that leads to this peer; null while there is none. From any thread.
  std::shared_ptr<SharedSender> ring() const;
  void set_ring(std::shared_ptr<SharedSender> ring);
  /// From any thread: what waits is dropped, and the I/O thread closes the socket soon. No post does anything after.
  void retire();
  bool retired() const { return retired_.load(); }

  // ---- the rest is for the I/O thread -----------------------------------------------------------------------
  /// What poll says of the descriptors.
  void told(bool socket, bool monitor) {
    more_ |= socket || monitor;
    events_wait_ |= monitor;
  }
  /// To be asked before the thread waits: there is something to serve at once.
  bool more();
  /// Once: it is to be served.
  bool called() { return bell_->answer() | std::exchange(more_, false); }
  /// Sends what waits and may go, and appends what came in. Opens the socket where something waits.
  void serve(zmq::context_t& context, std::vector<Incoming>& received);
  /// Changes of the connection since the last call.
  enum class Event { connected, lost, refused };
  std::vector<Event> events();
  /// File descriptors to poll; -1 before the socket is there.
  int socket_fd() const { return socket_fd_; }
  int monitor_fd() const { return monitor_fd_; }
  void close(int linger_ms);
  /// Nothing waits, or there is nobody to send it to.
  bool idle();
  bool connected() const { return connected_.load(); }

  struct Depth {
    size_t messages = 0, bytes = 0, held_bytes = 0;
  };
  Depth depth();

 private:
  bool open(zmq::context_t& context);
  void pump();
  void count_handed(Handed handed, size_t bytes);

  const PeerName peer_;
  const LinkOptions options_;
  Traffic& traffic_;
  std::optional<KeyRole> key_role_;
  const std::shared_ptr<Bell> bell_;
  const std::shared_ptr<SendWindow> window_;

  std::mutex mutex_;  ///< guards what follows
  SendQueue queue_;
  std::optional<zmq::socket_t> socket_;
  std::thread::id io_thread_;  ///< which serves; none before

  mutable std::mutex ring_mutex_;
  std::shared_ptr<SharedSender> ring_;  ///< guarded by ring_mutex_

  std::optional<zmq::socket_t> monitor_;  ///< the I/O thread's alone, as are the descriptors
  int socket_fd_ = -1, monitor_fd_ = -1;
  bool sent_here_ = false;                ///< by the I/O thread, since it was asked for more; these three are its own
  bool more_ = true, events_wait_ = true;
  std::atomic<bool> retired_{false}, connected_{false};
};

}  // namespace troupe::ps
