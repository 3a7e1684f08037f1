#include <troupe/ps/transport/network_transport.h>

#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <shared_mutex>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/transport/internal/address.h>
#include <troupe/ps/transport/internal/host_id.h>
#include <troupe/ps/transport/internal/io_loop.h>
#include <troupe/ps/transport/internal/refusals.h>
#include <troupe/ps/transport/internal/return_paths.h>
#include <troupe/ps/transport/internal/route_table.h>
#include <troupe/ps/transport/internal/shared_peers.h>
#include <troupe/ps/transport/internal/stranger.h>
#include <troupe/ps/transport/internal/urgency.h>
#include <troupe/ps/transport/local_sinks.h>
#include <troupe/ps/transport/prompt_sink.h>

namespace troupe::ps {
namespace {

// Endpoints without a route: those that are joining, and tools that ask.
constexpr size_t kReturnPaths = 4096;

Status check_listen(const NetworkOptions& options) {
  if (options.listen.empty() || is_ipc(options.listen)) return {};
  if (const auto tcp = parse_tcp(options.listen); !tcp) return tl::unexpected(tcp.error());
  if (is_local(options.listen) || options.keys || options.insecure_network) return {};
  return fail(ErrorKind::invalid, cat("will not listen on ", options.listen,
                                      ": whoever reaches that address could join, read and change the model; listen on "
                                      "127.0.0.1, give the run keys (troupe keys DIR), or allow it with "
                                      "--insecure-network on a network that you trust"));
}

/// What peers are told; `bound` has the port that the system chose.
Result<std::string> advertised(const NetworkOptions& options, const std::string& bound) {
  if (bound.empty() || is_ipc(bound)) return bound;
  auto tcp = parse_tcp(bound);
  if (!tcp) return tl::unexpected(tcp.error());
  if (!options.advertise.empty()) {
    const std::string full = with_scheme(options.advertise);
    if (is_ipc(full)) return full;
    auto given = parse_tcp(full);
    if (!given) given = parse_tcp(full + ':' + tcp->port);
    if (!given) return tl::unexpected(given.error());
    return to_string(*given);
  }
  if (is_wildcard(tcp->host)) tcp->host = reachable_ip(options.home);
  return to_string(*tcp);
}

}  // namespace

const char* name_of(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::garbage: return "garbage";
    case RefusalReason::other_version: return "other protocol version";
    case RefusalReason::other_run: return "other run";
    case RefusalReason::too_long: return "too long";
    case RefusalReason::handshake: return "handshake";
    case RefusalReason::key: return "unknown key";
    case RefusalReason::role: return "role that the key may not have";
  }
  return "?";
}

struct NetworkTransport::State {
  explicit State(NetworkOptions o) : options(std::move(o)), run(options.run), refusals(options.on_refused) {}

  void received(Incoming& message);
  void share_memory();
  void agree(const SharedFrame& frame, const Incoming& message);
  /// False: it does not go through shared memory, but may over the socket.
  bool share(Link& link, const Envelope& envelope);
  /// Its receiver, who has the run's limits too, would refuse it, and the sender not know why: so it is said here.
  bool too_long(const wire::Frames& frames, const Envelope& envelope);
  bool near(const Link& link) const;
  void changed(Link& link, Link::Event event);
  /// `refused`: addresses whose keys nobody knows.
  void take_routes(const Routes& now, std::vector<std::string>& refused);
  void refuse(const Incoming& message, RefusalReason reason, std::string detail);
  void refuse_undecoded(const Incoming& message, const std::string& why);
  /// Without keys everybody is who he says he is.
  bool knows_key(const NodeAddress& node) const {
    return !options.keys || is_ipc(node.address) || options.keys->allowed.contains(node.public_key);
  }
  /// Over ipc the file system decides who connects, and there are no keys.
  PeerName name_of(const std::string& address, const std::string& key) const {
    return {address, options.keys && !is_ipc(address) ? key : ""};
  }
  /// Null: no route that has an address.
  std::shared_ptr<Link> link_to(const Endpoint& endpoint) const;
  bool routed(const Endpoint& endpoint) const { return link_to(endpoint) != nullptr; }

  const NetworkOptions options;
  std::atomic<wire::RunId> run;
  std::string address, host;
  LocalSinks sinks;
  ReturnPaths return_paths{kReturnPaths};
  Refusals refusals;
  Traffic traffic;

  std::mutex closing;
  mutable std::shared_mutex mutex;  ///< guards what follows
  RouteTable routes;
  std::map<uint32_t, std::shared_ptr<Link>> links;  ///< by node; only nodes that have an address
  std::shared_ptr<Link> home;
  uint32_t self = kUnassigned;

  std::unique_ptr<SharedPeers> shared;  ///< null: no shared memory. Its thread, as the next, uses all the rest
  std::unique_ptr<IoLoop> loop;
};

Result<std::shared_ptr<NetworkTransport>> NetworkTransport::open(NetworkOptions options) {
  options.home = with_scheme(options.home);
  if (!options.home.empty() && !is_ipc(options.home))
    if (const auto tcp = parse_tcp(options.home); !tcp) return tl::unexpected(tcp.error());
  TROUPE_TRY(check_listen(options));

  auto state = std::make_unique<State>(std::move(options));
  const NetworkOptions& o = state->options;
  IoOptions io{.listen = o.listen, .linger_ms = static_cast<int>(o.linger_ms), .seed = std::random_device{}()};
  io.link = {.queue = {o.queue_bytes, o.queue_messages},
             .window_bytes = o.window_bytes,
             .max_message_bytes = o.max_message_bytes,
             .heartbeat_ms = o.heartbeat_ms,
             .keys = o.keys};
  IoLoop::Handlers handlers{.message = [s = state.get()](Incoming& message) { s->received(message); },
                            .event = [s = state.get()](Link& link, Link::Event event) { s->changed(link, event); },
                            .refused =
                                [s = state.get()](bool key, const std::string& peer, const std::string& why) {
                                  s->refusals.add({peer, key ? RefusalReason::key : RefusalReason::handshake, why});
                                }};
  auto loop = IoLoop::open(std::move(io), std::move(handlers), state->traffic);
  if (!loop) return tl::unexpected(loop.error());
  state->loop = std::move(*loop);
  auto address = advertised(o, state->loop->listens_on());
  if (!address) return tl::unexpected(address.error());
  state->address = std::move(*address);
  state->host = host_id();
  if (!o.home.empty()) state->home = state->loop->link(state->name_of(o.home, o.keys ? o.keys->coordinator() : ""));
  if (o.shared_memory && !state->host.empty()) state->share_memory();
  state->loop->start();
  return std::shared_ptr<NetworkTransport>(new NetworkTransport(std::move(state)));
}

NetworkTransport::NetworkTransport(std::unique_ptr<State> state) : state_(std::move(state)) {}
NetworkTransport::~NetworkTransport() { close(); }

void NetworkTransport::close() {
  std::lock_guard lock(state_->closing);
  state_->loop->close();
  if (state_->shared) state_->shared->close();
  state_->refusals.close();
}

void NetworkTransport::attach(const Endpoint& endpoint, Sink sink) { state_->sinks.attach(endpoint, std::move(sink)); }
void NetworkTransport::detach(const Endpoint& endpoint) { state_->sinks.detach(endpoint); }
void NetworkTransport::set_run(wire::RunId run) { state_->run = run; }

void NetworkTransport::send(Envelope envelope) {
  State& s = *state_;
  if (const auto sink = s.sinks.find(envelope.to)) {
    count(s.traffic.local_messages);
    return (*sink)(std::make_shared<const Envelope>(std::move(envelope)));
  }
  const auto link = s.link_to(envelope.to);
  std::string route = link ? "" : s.return_paths.to(envelope.to);
  if (!link && route.empty()) return count(s.traffic.dropped_unreachable);
  if (link && s.share(*link, envelope)) return;
  Outgoing message{wire::encode(envelope, s.run), urgency_of(envelope.body), std::move(route)};
  if (s.too_long(message.frames, envelope)) return;
  if (link)
    link->post(std::move(message));
  else
    s.loop->answer(std::move(message));
}

std::shared_ptr<Link> NetworkTransport::State::link_to(const Endpoint& endpoint) const {
  std::shared_lock lock(mutex);
  if (endpoint.role == Role::coordinator && home) return home;
  const auto node = routes.node_of(endpoint);
  if (!node || *node == self) return nullptr;
  const auto link = links.find(*node);
  return link == links.end() ? nullptr : link->second;
}

void NetworkTransport::State::share_memory() {
  SharedPeers::Handlers handlers{.message = [this](Incoming& message) { received(message); },
                                 .nonsense =
                                     [this](const std::string& why) {
                                       refusals.add({"a process of this host", RefusalReason::garbage, why});
                                     },
                                 .answer = [this](Outgoing answer) { loop->answer(std::move(answer)); }};
  auto started = SharedPeers::start({options.shared_bytes, options.shared_bytes}, std::move(handlers));
  if (started) shared = std::move(*started);
}

void NetworkTransport::State::agree(const SharedFrame& frame, const Incoming& message) {
  if (shared) return shared->take(frame, message);
  if (frame.kind == SharedFrame::Kind::offer && !message.route.empty())
    loop->answer({{to_bytes({SharedFrame::Kind::decline, frame.ring, {}}), {}}, 0, message.route});
}

bool NetworkTransport::State::share(Link& link, const Envelope& envelope) {
  const auto ring = link.ring();
  if (!ring) return false;
  const wire::Frames frames = wire::encode(envelope, run, wire::Checksums::without);
  if (too_long(frames, envelope)) return true;
  if (!ring->send(frames.head, frames.payloads)) return false;
  count(traffic.shared_messages);
  count(traffic.shared_bytes, static_cast<int64_t>(Outgoing{frames}.bytes()));
  return true;
}

bool NetworkTransport::State::too_long(const wire::Frames& frames, const Envelope& envelope) {
  size_t bytes = frames.head.size();
  for (const Tensor& payload : frames.payloads) bytes += payload.bytes();
  if (bytes <= options.max_message_bytes) return false;
  refusals.add({cat("a message to ", envelope.to), RefusalReason::too_long,
                cat(ps::name_of(envelope.body), " of ", bytes, " bytes, at most ", options.max_message_bytes,
                    " are allowed: raise network.max_message_bytes")});
  return true;
}

bool NetworkTransport::State::near(const Link& link) const {
  std::shared_lock lock(mutex);
  if (&link == home.get()) return true;  // perhaps: before there are routes nobody knows
  const auto node = routes.nodes().find(link.node);
  return node != routes.nodes().end() && node->second.host == host;
}

void NetworkTransport::State::received(Incoming& message) {
  const std::span head(static_cast<const std::byte*>(message.head.data()), message.head.size());
  if (!message.shared)
    if (const auto frame = shared_frame_in(head)) return agree(*frame, message);
  count(traffic.received_messages);
  count(traffic.received_bytes, static_cast<int64_t>(message.bytes));
  if (message.too_long)
    return refuse(message, RefusalReason::too_long,
                  cat(message.bytes, " bytes, at most ", options.max_message_bytes, " are allowed"));
  auto decoded = wire::decode(
      head, std::move(message.payloads),
      {.max_payload_bytes = options.max_message_bytes,
       .run = run.load(),
       .check_payloads = !message.shared,
       .may_change = message.shared});
  if (!decoded) return refuse_undecoded(message, decoded.error().message);
  if (message.key_role && !may_speak_for(*message.key_role, decoded->from.role))
    return refuse(message, RefusalReason::role,
                  cat("somebody with a ", ps::name_of(*message.key_role), "'s key sends as ", decoded->from));
  if (!message.route.empty() && !routed(decoded->from)) return_paths.learn(decoded->from, message.route);
  const auto sink = sinks.find(decoded->to);
  if (!sink) return count(traffic.dropped_unattached);
  auto envelope = std::make_shared<const Envelope>(std::move(*decoded));
  const auto* prompt = sink->target<PromptSink>();
  if (prompt && message.bytes <= prompt->most_bytes())
    prompt->take_here(std::move(envelope));
  else
    (*sink)(std::move(envelope));
}

void NetworkTransport::State::refuse_undecoded(const Incoming& message, const std::string& why) {
  const std::span head(static_cast<const std::byte*>(message.head.data()), message.head.size());
  const auto stranger = stranger_in(head);
  const bool other_version = stranger && stranger->protocol != wire::kProtocolVersion;
  const bool other_run = stranger && !other_version && run != 0 && stranger->run != 0 && stranger->run != run;
  if (!other_version && !other_run) return refuse(message, RefusalReason::garbage, why);
  const std::string detail =
      other_version
          ? cat("speaks version ", stranger->protocol, " of the protocol, this run speaks version ",
                wire::kProtocolVersion, ": start all processes from one build")
          : cat("belongs to run ", stranger->run, ", this is run ", run.load(), ": check the address to join");
  refuse(message, other_version ? RefusalReason::other_version : RefusalReason::other_run, detail);
  if (stranger->hello && !message.route.empty())
    loop->answer({rejection(*stranger, "the process that wants to join " + detail), 0, message.route});
}

void NetworkTransport::State::refuse(const Incoming& message, RefusalReason reason, std::string detail) {
  refusals.add({peer_of(message.head), reason, std::move(detail)});
}

void NetworkTransport::State::changed(Link& link, Link::Event event) {
  if (event == Link::Event::refused)
    return refusals.add({link.peer().address, RefusalReason::handshake,
                         options.keys ? "whoever listens there does not let this process in: it has other keys, or none"
                                      : "whoever listens there does not let this process in: it wants keys, or is not "
                                        "Troupe"});
  if (shared && event == Link::Event::connected && near(link)) shared->connected(link);
  if (event != Link::Event::lost) return;
  if (shared) shared->lost(link);
  count(traffic.connections_lost);
  if (options.on_peer_lost) options.on_peer_lost(link.node);
}

NodeAddress NetworkTransport::address() const {
  std::shared_lock lock(state_->mutex);
  return {.node = state_->self,
          .address = state_->address,
          .public_key = state_->options.keys ? state_->options.keys->public_key : "",
          .host = state_->host};
}

void NetworkTransport::set_self(uint32_t node) {
  std::unique_lock lock(state_->mutex);
  state_->self = node;
}

void NetworkTransport::set_routes(const Routes& routes) {
  State& s = *state_;
  std::vector<std::string> refused;
  s.take_routes(routes, refused);
  for (std::string& peer : refused)  // with nothing locked: whoever hears it may ask or send
    s.refusals.add({std::move(peer), RefusalReason::key, "the routes give it a key that is not in the run's list"});
}

void NetworkTransport::State::take_routes(const Routes& now, std::vector<std::string>& refused) {
  std::unique_lock lock(mutex);
  if (now.version <= routes.version()) return;
  routes = RouteTable(now);
  links.clear();
  std::set<PeerName> kept;
  if (home) kept.insert(home->peer());
  for (const auto& [index, node] : routes.nodes()) {
    if (index == self || node.address.empty()) continue;
    if (!knows_key(node)) {
      refused.push_back(node.address);
      continue;
    }
    const PeerName name = name_of(node.address, node.public_key);
    const auto link = loop->link(name);
    link->node = index;
    links[index] = link;
    kept.insert(name);
  }
  loop->keep(kept);
}

NetworkCounters NetworkTransport::counters() const {
  const State& s = *state_;
  const Traffic& t = s.traffic;
  NetworkCounters c{t.sent_messages,      t.sent_bytes,
                    t.shared_messages,    t.shared_bytes,
                    t.received_messages,  t.received_bytes,
                    t.local_messages,     t.dropped_full,
                    t.dropped_repeated,   t.dropped_unreachable,
                    t.dropped_unattached, t.connections_lost,
                    s.refusals.counts(),  {}};
  for (const auto& link : s.loop->links()) {
    const auto depth = link->depth();
    c.peers.push_back({link->node, link->peer().address, link->connected(), link->ring() != nullptr,
                       static_cast<int64_t>(depth.messages), static_cast<int64_t>(depth.bytes),
                       static_cast<int64_t>(depth.held_bytes)});
  }
  return c;
}

int64_t NetworkCounters::refused_in_all() const {
  int64_t sum = 0;
  for (const int64_t count : refused) sum += count;
  return sum;
}

int64_t NetworkCounters::queued_messages() const {
  int64_t sum = 0;
  for (const Peer& peer : peers) sum += peer.queued_messages;
  return sum;
}

int64_t NetworkCounters::queued_bytes() const {
  int64_t sum = 0;
  for (const Peer& peer : peers) sum += peer.queued_bytes;
  return sum;
}

}  // namespace troupe::ps
