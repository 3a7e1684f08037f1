#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/transport/keys.h>
#include <troupe/ps/transport/transport.h>
#include <troupe/ps/wire/codec.h>

namespace troupe::ps {

/// Why a message or a connection from outside was not taken.
enum class RefusalReason : uint8_t {
  garbage,        ///< no message of ours: bytes, sizes, shapes or checksums that do not fit
  other_version,  ///< of the protocol
  other_run,
  too_long,   ///< more bytes than max_message_bytes; one of our own, too, is not sent
  handshake,  ///< a connection that does not speak ZeroMQ's protocol, has no key, or expects another one here
  key,        ///< of somebody who is not in the run's list
  role,       ///< a sender for whom the key that came with it may not speak
};
inline constexpr size_t kRefusalReasons = 7;
const char* name_of(RefusalReason reason);

struct Refusal {
  std::string peer;  ///< its IP; "?" where the system does not tell
  RefusalReason reason = RefusalReason::garbage;
  std::string detail;
};

struct NetworkOptions {
  /// Where others connect to: "tcp://IP:PORT" (port 0: a free one), "tcp://*:PORT" for all interfaces and both IP
  /// families, "ipc:///path". Empty: nobody connects (a tool that only asks). Other than loopback and ipc only with
  /// `keys` or `insecure_network`.
  std::string listen = "tcp://127.0.0.1:0";
  /// What peers are told instead, where they reach this process by another address (a container's host, a name):
  /// "HOST" or "HOST:PORT". Empty: `listen`, with an IP of this host in place of a wildcard.
  std::string advertise;
  /// Address of the coordinator's process. Messages to coordinators go there. Empty: as the routes say.
  std::string home;
  wire::RunId run = 0;  ///< 0: messages of any run are taken, ours carry none
  /// Encrypts every tcp connection, and lets in the keys of the list alone. Null: neither.
  std::shared_ptr<const Keys> keys;
  bool insecure_network = false;  ///< whoever reaches `listen` may join, read and change the model

  /// What may wait for one peer that does not read; beyond, the least urgent is dropped and its sender repeats it.
  size_t queue_bytes = size_t{1} << 30;
  size_t queue_messages = 16384;
  /// What ZeroMQ is given at once a peer; up to 16 times as much where the connection proves faster than that. Less: an
  /// urgent message overtakes more of what was sent before it. More: fewer pauses.
  size_t window_bytes = size_t{2} << 20;
  /// Longer ones are refused before memory is taken for them, and not sent, as others have the same limit.
  size_t max_message_bytes = size_t{1} << 30;
  /// Messages between processes of one host and user go through shared memory while it has room.
  bool shared_memory = true;
  /// What may be on its way to one such process and held by it together, in memory that is taken when used. The same
  /// is mapped from each of them.
  size_t shared_bytes = size_t{64} << 20;
  int64_t heartbeat_ms = 2000;  ///< between signs of life on an idle connection; four missed: it is closed, made anew
  int64_t linger_ms = 1000;     ///< how long `close` waits for what is not sent yet

  /// A peer's connection broke: it died, or the network did. Called from the transport's own thread; to return at once.
  std::function<void(uint32_t node)> on_peer_lost;
  /// Once a peer and reason, at most some hundred times in all. Called from a thread that does nothing else and may
  /// wait, for a slow terminal, while the network goes on; `close` waits for it.
  std::function<void(const Refusal&)> on_refused;
};

struct NetworkCounters {
  int64_t sent_messages = 0, sent_bytes = 0;      ///< given to ZeroMQ, envelopes included
  int64_t shared_messages = 0, shared_bytes = 0;  ///< sent through shared memory instead
  int64_t received_messages = 0, received_bytes = 0;
  int64_t local_messages = 0;       ///< between endpoints of this process, never encoded
  int64_t dropped_full = 0;         ///< messages for which a queue had no room
  int64_t dropped_repeated = 0;     ///< repetitions of a message that still waited
  int64_t dropped_unreachable = 0;  ///< no route, or the peer went away
  int64_t dropped_unattached = 0;   ///< came in for an endpoint that is not here (any more)
  int64_t connections_lost = 0;
  std::array<int64_t, kRefusalReasons> refused{};  ///< by RefusalReason
  struct Peer {
    uint32_t node = kUnassigned;
    std::string address;
    bool connected = false;
    bool shared = false;  ///< by shared memory too
    int64_t queued_messages = 0, queued_bytes = 0;
    int64_t window_bytes = 0;  ///< given to ZeroMQ and not yet written to the connection
  };
  std::vector<Peer> peers;

  int64_t refused_in_all() const;
  int64_t queued_messages() const;
  int64_t queued_bytes() const;
};

/// The network between the processes of a run, one object a process: ZeroMQ sockets, owned by a thread of their own.
/// Messages to endpoints that are attached here are handed over directly on the sender's thread, as MemoryTransport
/// does; others are encoded on the sender's thread, and go to the process that the routes name. Messages to endpoints
/// without a route (a process that joins, a tool that asks) go back over the connection on which they were last heard
/// of.
///
/// Tensors are not copied: the network reads those that are sent where they are, and lets them go from a thread of
/// its own; those that arrive view the memory they were received into.
///
/// Nothing is promised: messages may be lost, doubled when connections break, and more urgent ones (urgency.h)
/// overtake others. Memory is bounded by the options. All functions are thread-safe. Sinks are called from the
/// sender's thread or the transport's.
class NetworkTransport final : public Transport {
 public:
  /// Listens and is ready. Fails where `listen` cannot be had, is not allowed, or an address is none.
  static Result<std::shared_ptr<NetworkTransport>> open(NetworkOptions options);
  /// Closes. Not from a sink.
  ~NetworkTransport() override;

  void attach(const Endpoint& endpoint, Sink sink) override;
  void detach(const Endpoint& endpoint) override;
  void send(Envelope envelope) override;
  bool reliable() const override { return false; }

  /// Where and what this process is, for its Hello and for Routes. `node` is what `set_self` said.
  NodeAddress address() const;
  /// Who is where from now on. Not newer than the last: ignored. Connections to processes that are in it no more are
  /// closed, and what waits for them is dropped.
  void set_routes(const Routes& routes);
  /// Which node of the routes this process is.
  void set_self(uint32_t node);
  /// From now on messages carry this run, and those of others are refused.
  void set_run(wire::RunId run);

  NetworkCounters counters() const;

  /// Sends what waits (linger_ms at most), closes all connections, and calls nobody any more. Idempotent. Not from a
  /// sink, nor from on_refused.
  void close();

 private:
  struct State;
  explicit NetworkTransport(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace troupe::ps
