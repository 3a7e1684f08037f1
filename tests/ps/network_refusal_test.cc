#include <arpa/inet.h>
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <sys/socket.h>
#include <wire/schema.capnp.h>
#include <xxhash.h>
#include <boost/test/unit_test.hpp>
#include <zmq.hpp>

#include <atomic>
#include <future>
#include <mutex>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/random.h>
#include <troupe/ps/transport/network_transport.h>

#include <tests/support/inbox.h>
#include <tests/support/network.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(network_refusal)

namespace {

const Endpoint kStranger{Role::node, kUnassigned, 99};
constexpr wire::RunId kRun = 1234;

Envelope hello() { return {kStranger, kCoordinator, 0, Hello{"stranger", {}, true, true, -1}}; }

/// A coordinator's process under attack, and a worker's that must not notice.
struct Victim {
  explicit Victim(NetworkOptions options = {}) {
    options.run = kRun;
    options.on_refused = [this](const Refusal& refusal) {
      std::lock_guard lock(mutex);
      reports.push_back(refusal);
    };
    transport = open(std::move(options));
    transport->attach(kCoordinator, inbox.sink());
  }
  ~Victim() { transport->close(); }

  std::string address() const { return transport->address().address; }
  int64_t refused(RefusalReason reason) const { return transport->counters().refused[static_cast<size_t>(reason)]; }
  /// It still takes what is right.
  bool lives() {
    auto other = open({.listen = "", .home = address(), .run = kRun});
    const size_t before = inbox.size();
    other->send({kStranger, kCoordinator, 0, Heartbeat{}});
    return inbox.wait(before + 1).size() == before + 1;
  }

  std::mutex mutex;
  std::vector<Refusal> reports;
  Inbox inbox;
  TransportPtr transport;
};

/// A peer that speaks ZeroMQ and says whatever it likes.
class Foreigner {
 public:
  explicit Foreigner(const std::string& address) : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvtimeo, 10000);
    socket_.connect(address);
  }
  void say(const std::vector<std::string>& parts) {
    for (size_t i = 0; i < parts.size(); ++i)
      socket_.send(zmq::buffer(parts[i]), i + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
  std::string hear() {
    zmq::message_t part;
    return socket_.recv(part) ? part.to_string() : "";
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

std::string text(const std::byte* bytes, size_t count) { return {reinterpret_cast<const char*>(bytes), count}; }

std::vector<std::string> parts_of(const Envelope& envelope, wire::RunId run) {
  const auto frames = wire::encode(envelope, run);
  std::vector<std::string> parts = {text(frames.head.data(), frames.head.size())};
  for (const Tensor& payload : frames.payloads) parts.push_back(text(payload.raw(), payload.bytes()));
  return parts;
}

/// The head with another protocol number, sealed again.
std::string with_protocol(const std::string& head, uint16_t protocol) {
  std::vector<capnp::word> words((head.size() - 8) / sizeof(capnp::word));
  std::memcpy(words.data(), head.data() + 8, words.size() * sizeof(capnp::word));
  capnp::FlatArrayMessageReader reader({words.data(), words.size()});
  capnp::MallocMessageBuilder builder;
  builder.setRoot(reader.getRoot<wire::schema::Envelope>());
  builder.getRoot<wire::schema::Envelope>().setProtocol(protocol);
  const auto body = capnp::messageToFlatArray(builder);
  const auto bytes = body.asBytes();
  const uint64_t seal = XXH3_64bits(bytes.begin(), bytes.size());
  std::string sealed(reinterpret_cast<const char*>(&seal), sizeof seal);
  return sealed.append(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
}

uint16_t protocol_of(const std::string& head) {
  std::vector<capnp::word> words((head.size() - 8) / sizeof(capnp::word));
  std::memcpy(words.data(), head.data() + 8, words.size() * sizeof(capnp::word));
  capnp::FlatArrayMessageReader reader({words.data(), words.size()});
  return reader.getRoot<wire::schema::Envelope>().getProtocol();
}

std::string noise(uint64_t seed, size_t bytes) {
  Random random(seed);
  std::string all;
  while (all.size() < bytes) all += static_cast<char>(random.below(256));
  return all;
}

/// Bytes on a plain connection; what does not fit because it was closed is nobody's business.
void throw_at(const std::string& address, const std::string& bytes) {
  const FileDescriptor plain(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  BOOST_REQUIRE(::connect(plain.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  [[maybe_unused]] const auto sent = ::send(plain.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  char answer[64];
  timeval patience{0, 200000};
  ::setsockopt(plain.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  while (::recv(plain.get(), answer, sizeof answer, 0) > 0) {
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(BytesOfAnotherProtocolLeaveTheProcessAlive) {
  Victim victim;
  throw_at(victim.address(),
           "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: nothing of yours\r\nAccept: */*\r\n\r\n");
  for (uint64_t seed = 0; seed < 8; ++seed) throw_at(victim.address(), noise(seed, 4096));
  const std::string greeting("\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL", 16);
  throw_at(victim.address(), greeting + std::string(48, '\0') + noise(9, 4096));
  BOOST_TEST(eventually([&] { return victim.transport->counters().refused_in_all() > 0; }));
  BOOST_TEST(victim.lives());
}

BOOST_AUTO_TEST_CASE(FramesThatAreNoMessageAreRefused) {
  Victim victim;
  Foreigner foreigner(victim.address());
  foreigner.say({""});
  foreigner.say({"x"});
  foreigner.say({noise(1, 300)});
  foreigner.say({noise(2, 300), noise(3, 100000), ""});
  BOOST_TEST(eventually([&] { return victim.refused(RefusalReason::garbage) == 4; }));
  BOOST_TEST(victim.lives());
}

BOOST_AUTO_TEST_CASE(AMessageWithoutItsPayloadIsRefused) {
  Victim victim;
  Foreigner foreigner(victim.address());
  Push push;
  push.gradients = {ramp(100)};
  auto parts = parts_of({kStranger, kCoordinator, 0, push}, kRun);
  const std::string payload = parts[1];
  parts[1] = payload.substr(4);
  foreigner.say(parts);
  parts[1] = payload;
  ++parts[1][17];
  foreigner.say(parts);
  foreigner.say({parts[0]});
  BOOST_TEST(eventually([&] { return victim.refused(RefusalReason::garbage) == 3; }));
  parts[1] = payload;
  foreigner.say(parts);
  BOOST_TEST(victim.inbox.wait(1).size() == 1u);
}

BOOST_AUTO_TEST_CASE(AHelloOfAnotherVersionIsAnsweredInThatVersion) {
  Victim victim;
  Foreigner foreigner(victim.address());
  foreigner.say({with_protocol(parts_of(hello(), 0)[0], 7)});
  const std::string answer = foreigner.hear();
  BOOST_REQUIRE(answer.size() > 16);
  BOOST_TEST(protocol_of(answer) == 7);
  const std::string ours = with_protocol(answer, wire::kProtocolVersion);
  const auto decoded = wire::decode(std::as_bytes(std::span(ours)), {}, {});
  BOOST_REQUIRE(decoded);
  BOOST_TEST(decoded->to == kStranger);
  BOOST_TEST(std::get<Rejected>(decoded->body).reason ==
             "the process that wants to join speaks version 7 of the protocol, this run speaks version 1: start all "
             "processes from one build");
  BOOST_TEST(victim.refused(RefusalReason::other_version) == 1);
  BOOST_TEST(victim.inbox.size() == 0u);
}

BOOST_AUTO_TEST_CASE(AHelloOfAnotherRunIsAnsweredWithTheReason) {
  Victim victim;
  Inbox inbox;
  auto stranger = open({.listen = "", .home = victim.address(), .run = 99});
  stranger->attach(kStranger, inbox.sink());
  stranger->send(hello());
  const auto answers = inbox.wait(1);
  BOOST_REQUIRE_EQUAL(answers.size(), 1u);
  BOOST_TEST(std::get<Rejected>(answers[0]->body).reason ==
             "the process that wants to join belongs to run 99, this is run 1234: check the address to join");
  BOOST_TEST(victim.refused(RefusalReason::other_run) == 1);
  BOOST_TEST(victim.inbox.size() == 0u);
}

BOOST_AUTO_TEST_CASE(AHelloWithoutARunIsTaken) {
  Victim victim;
  auto stranger = open({.listen = "", .home = victim.address()});
  stranger->send(hello());
  BOOST_TEST(victim.inbox.wait(1).size() == 1u);
}

BOOST_AUTO_TEST_CASE(ARunLearnedLaterCounts) {
  Victim victim;
  auto node = open({.listen = "", .home = victim.address()});
  node->set_run(kRun + 1);
  node->send({kStranger, kCoordinator, 0, Heartbeat{}});
  BOOST_TEST(eventually([&] { return victim.refused(RefusalReason::other_run) == 1; }));
  node->set_run(kRun);
  node->send({kStranger, kCoordinator, 0, Heartbeat{}});
  BOOST_TEST(victim.inbox.wait(1).size() == 1u);
}

BOOST_AUTO_TEST_CASE(AFrameLongerThanAllowedEndsItsConnection) {
  Victim victim({.max_message_bytes = 64 << 10});
  auto big = open({.listen = "", .home = victim.address(), .run = kRun});
  Push push;
  push.gradients = {ramp(100000)};
  big->send({kStranger, kCoordinator, 0, push});
  BOOST_TEST(eventually([&] { return big->counters().connections_lost > 0; }));
  BOOST_TEST(victim.inbox.size() == 0u);
  BOOST_TEST(victim.lives());
}

// Others would close the connection, and it would be made again and again for nothing.
BOOST_AUTO_TEST_CASE(AMessageLongerThanAllowedIsNotSent) {
  Victim victim;
  std::string said;
  auto big = open({.listen = "",
                   .home = victim.address(),
                   .run = kRun,
                   .max_message_bytes = 64 << 10,
                   .on_refused = [&](const Refusal& refusal) { said = refusal.peer + ": " + refusal.detail; }});
  Push push;
  push.gradients = {ramp(100000)};
  big->send({kStranger, kCoordinator, 0, push});
  big->send({kStranger, kCoordinator, 0, Heartbeat{}});
  BOOST_TEST(std::holds_alternative<Heartbeat>(victim.inbox.wait(1).at(0)->body));
  BOOST_TEST(big->counters().refused[static_cast<size_t>(RefusalReason::too_long)] == 1);
  big->close();
  BOOST_TEST(said.starts_with("a message to coordinator 0: Push of 400"), said);
  BOOST_TEST(said.ends_with("at most 65536 are allowed: raise network.max_message_bytes"), said);
}

BOOST_AUTO_TEST_CASE(AMessageLongerThanAllowedIsRefused) {
  Victim victim({.max_message_bytes = 64 << 10});
  Foreigner foreigner(victim.address());
  foreigner.say({noise(1, 50000), noise(2, 50000)});
  BOOST_TEST(eventually([&] { return victim.refused(RefusalReason::too_long) == 1; }));
  BOOST_TEST(victim.lives());
}

BOOST_AUTO_TEST_CASE(APeerAndReasonAreReportedOnce) {
  Victim victim;
  Foreigner foreigner(victim.address()), another(victim.address());
  for (int i = 0; i < 20; ++i) foreigner.say({"x"}), another.say({"y"});
  BOOST_TEST(eventually([&] { return victim.refused(RefusalReason::garbage) == 40; }));
  victim.transport->close();  // once all is reported
  std::lock_guard lock(victim.mutex);
  BOOST_REQUIRE_EQUAL(victim.reports.size(), 1u);
  BOOST_TEST(victim.reports[0].peer == "127.0.0.1");
}

// As where they go to a terminal that is held, or a pipe that nobody reads.
BOOST_AUTO_TEST_CASE(AReportThatWaitsDoesNotHoldUpTheNetwork) {
  std::promise<void> held;
  std::atomic<bool> reporting = false;
  Inbox inbox;
  const auto victim = open({.run = kRun, .on_refused = [&, hold = held.get_future().share()](const Refusal&) {
                              reporting = true;
                              hold.wait();
                            }});
  victim->attach(kCoordinator, inbox.sink());
  Foreigner foreigner(victim->address().address);
  foreigner.say({"x"});
  BOOST_TEST(eventually([&] { return reporting.load(); }));
  foreigner.say(parts_of({kStranger, kCoordinator, 0, Heartbeat{}}, kRun));
  BOOST_TEST(inbox.wait(1).size() == 1u);
  held.set_value();
  victim->close();
}

BOOST_AUTO_TEST_SUITE_END()
