// The network between two processes of one host, through shared memory.
#include <boost/test/unit_test.hpp>
#include <zmq.hpp>

#include <troupe/ps/transport/internal/shared_frames.h>
#include <troupe/ps/transport/internal/shared_heap.h>
#include <troupe/ps/transport/network_transport.h>

#include <tests/support/child_process.h>
#include <tests/support/inbox.h>
#include <tests/support/network.h>
#include <tests/support/random_message.h>
#include <tests/support/shared_mail.h>
#include <tests/support/temp_folder.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(shared_transport)

namespace {

const Endpoint kServer{Role::server, 0, 1};
const Endpoint kWorker{Role::worker, 0, 1};

Routes routes(const NodeAddress& worker, const NodeAddress& server) {
  return routes_of({{worker, {kWorker}}, {server, {kServer}}});
}

/// A process that gives back what its server gets, once it is told where the worker is; then it tells "ready".
void echo(const NetworkOptions& options, Mail& worker_address, int channel) {
  auto transport = open(options);
  NodeAddress worker = transport->address();  // of the same host
  const auto text = worker_address.take<std::array<char, 200>>();
  worker.address = text.data();
  transport->attach(kServer, [&](EnvelopePtr e) { transport->send({e->to, e->from, e->generation, e->body}); });
  transport->set_self(1);
  transport->set_routes(routes(worker, transport->address()));
  ChildProcess::tell(channel, "ready");
  ::pause();
}

/// The worker's side, and the process that echoes.
struct Pair {
  explicit Pair(NetworkOptions worker = {}, NetworkOptions server = {})
      : child([&](int channel) {
          server.listen = "ipc://" + folder / "server";
          echo(server, mail, channel);
        }),
        transport((worker.listen = "ipc://" + folder / "worker", open(worker))) {
    tell_address(mail);
    child.line();  // what comes to a server that is not there yet is dropped
    transport->attach(kWorker, inbox.sink());
    NodeAddress there = transport->address();
    there.address = "ipc://" + folder / "server";
    transport->set_self(0);
    transport->set_routes(routes(transport->address(), there));
  }
  void tell_address(Mail& to) {
    std::array<char, 200> text{};
    transport->address().address.copy(text.data(), text.size() - 1);
    to.put(text);
  }
  bool shared() const { return transport->counters().peers.at(0).shared; }
  /// Sends it and hears it come back.
  bool exchange(const Message& body) {
    const size_t before = inbox.size();
    transport->send({kWorker, kServer, 7, body});
    const auto all = inbox.wait(before + 1);
    return all.size() == before + 1 && wire::pack(*all.back(), 1) == wire::pack({kServer, kWorker, 7, body}, 1);
  }

  TempFolder folder;
  Mail mail;
  ChildProcess child;  // before there are threads
  Inbox inbox;
  TransportPtr transport;
};

Push push_of(int64_t count) {
  Push push;
  push.samples = 1;
  push.gradients = {ramp(count)};
  return push;
}

}  // namespace

BOOST_AUTO_TEST_CASE(MessagesOfAllKindsComeOutAsTheyWentIn) {
  Pair pair;
  BOOST_TEST(pair.exchange(Pull{}));  // which connects them
  BOOST_REQUIRE(eventually([&] { return pair.shared(); }));
  const int64_t before = pair.transport->counters().shared_messages;
  ps::test::RandomMessages messages(1);
  constexpr size_t kKinds = ps::test::RandomMessages::kKinds;
  for (size_t kind = 0; kind < 3 * kKinds; ++kind)
    BOOST_REQUIRE_MESSAGE(pair.exchange(messages.next(kind % kKinds).body), "kind " << kind % kKinds);
  BOOST_TEST(pair.transport->counters().shared_messages == before + static_cast<int64_t>(3 * kKinds));
}

BOOST_AUTO_TEST_CASE(LargeTensorsArriveInSharedMemory) {
  Pair pair;
  BOOST_TEST(pair.exchange(Pull{}));
  BOOST_REQUIRE(eventually([&] { return pair.shared(); }));
  for (const int64_t count : {1, 1000, 16384, 1 << 18, 4 << 20}) BOOST_TEST(pair.exchange(push_of(count)));
}

// The peer might write what it has sent, and numbers say where this process reads and writes.
BOOST_AUTO_TEST_CASE(RowNumbersAreNotReadInSharedMemory) {
  Pair pair;
  BOOST_TEST(pair.exchange(Pull{}));
  BOOST_REQUIRE(eventually([&] { return pair.shared(); }));
  for (const int64_t count : {3, 100'000}) {
    Push push = push_of(count);
    push.rows = Tensor::to_lend({count}, DType::i32);
    for (int64_t i = 0; i < count; ++i) push.rows.data<int32_t>()[i] = static_cast<int32_t>(i);
    const auto back = [&] { return std::get<Push>(pair.inbox.wait(pair.inbox.size()).back()->body); };
    BOOST_TEST(eventually([&] {  // the way back may be shared a moment later
      return pair.exchange(push) && !back().gradients[0].buffer()->writable();
    }));
    BOOST_TEST(back().rows.buffer()->writable());  // which nothing in shared memory is
  }
}

BOOST_AUTO_TEST_CASE(ALargeTensorIsLentToItsReceiverAndComesBack) {
  Pair pair;
  BOOST_TEST(pair.exchange(Pull{}));
  BOOST_REQUIRE(eventually([&] { return pair.shared(); }));
  Push push = push_of(1 << 18);
  Tensor gradient = Tensor::to_lend(push.gradients[0].shape());
  std::memcpy(gradient.raw(), push.gradients[0].raw(), gradient.bytes());
  push.gradients = {std::move(gradient)};
  BOOST_TEST(pair.exchange(push));
  BOOST_TEST(push.gradients[0].buffer().use_count() > 1);  // not copied
  BOOST_TEST(eventually([&] {  // what comes back is seen when something is sent
    return pair.exchange(Pull{}) && push.gradients[0].buffer().use_count() == 1;
  }));
}

BOOST_AUTO_TEST_CASE(WhatTheRingHasNoRoomForGoesThroughTheSocket) {
  Pair pair({.shared_bytes = 1 << 20}, {.shared_bytes = 1 << 20});
  BOOST_TEST(pair.exchange(Pull{}));
  BOOST_REQUIRE(eventually([&] { return pair.shared(); }));
  const int64_t before = pair.transport->counters().sent_bytes;
  BOOST_TEST(pair.exchange(push_of(1 << 19)));
  BOOST_TEST(pair.transport->counters().sent_bytes - before >= 4 << 19);
}

BOOST_AUTO_TEST_CASE(AKilledPeerIsMetAgainWhenItComesBack) {
  TempFolder folder;
  Mail first_mail, second_mail, start;
  const NetworkOptions server{.listen = "ipc://" + folder / "server"};
  auto first = std::make_unique<ChildProcess>([&](int channel) { echo(server, first_mail, channel); });
  ChildProcess second([&](int channel) {
    start.take<int>();
    ::unlink((folder / "server").c_str());
    echo(server, second_mail, channel);
  });
  std::atomic<int> answers{0};  // and no message is kept, which would keep its memory
  auto transport = open({.listen = "ipc://" + folder / "worker"});
  transport->attach(kWorker, [&](EnvelopePtr) { ++answers; });
  std::array<char, 200> text{};
  transport->address().address.copy(text.data(), text.size() - 1);
  first_mail.put(text), second_mail.put(text);
  NodeAddress there = transport->address();
  there.address = server.listen;
  transport->set_self(0);
  transport->set_routes(routes(transport->address(), there));

  const auto shared = [&] { return transport->counters().peers.at(0).shared; };
  const auto one_more = [&] {  // sent again until it is answered, as all messages are
    const int before = answers;
    return eventually([&] {
      transport->send({kWorker, kServer, 1, push_of(50'000)});
      return answers > before;
    });
  };
  BOOST_TEST(one_more());
  BOOST_REQUIRE(eventually(shared));
  for (int i = 0; i < 20; ++i) transport->send({kWorker, kServer, 1, push_of(50'000)});
  first->end(SIGKILL);
  BOOST_TEST(eventually([&] { return !shared(); }));
  start.put(0);
  BOOST_TEST(one_more());
  BOOST_TEST(eventually(shared));
  const int64_t before = transport->counters().shared_messages;
  BOOST_TEST(one_more());
  BOOST_TEST(transport->counters().shared_messages > before);
  // The dead process's ring is given up: what is left is the doorbells and rings of the two that live.
  BOOST_TEST(eventually([] { return mapped_segments() == 4; }));
  transport->close();
  transport.reset();
  BOOST_TEST(eventually([] { return SharedHeap::of_this_process()->take_back() == 0 && mapped_segments() == 0; }));
}

BOOST_AUTO_TEST_CASE(SwitchedOffHereItIsNotOffered) {
  Pair pair({.shared_memory = false});
  for (int i = 0; i < 5; ++i) BOOST_TEST(pair.exchange(push_of(1000)));
  BOOST_TEST(pair.transport->counters().shared_messages == 0);
  BOOST_TEST(mapped_segments() == 0);
}

BOOST_AUTO_TEST_CASE(SwitchedOffThereItIsDeclined) {
  Pair pair({}, {.shared_memory = false});
  for (int i = 0; i < 5; ++i) BOOST_TEST(pair.exchange(push_of(1000)));
  BOOST_TEST(pair.transport->counters().shared_messages == 0);
  BOOST_TEST(eventually([] { return mapped_segments() == 1; }));  // the doorbell
  BOOST_TEST(pair.transport->counters().refused_in_all() == 0);
}

BOOST_AUTO_TEST_CASE(APeerOfAnotherHostIsOfferedNothing) {
  auto server = open(), worker = open();
  Inbox inbox;
  server->attach(kServer, inbox.sink());
  NodeAddress there = server->address();
  there.host = "elsewhere";
  worker->set_self(0);
  worker->set_routes(routes(worker->address(), there));
  for (size_t i = 1; i <= 5; ++i) {
    worker->send({kWorker, kServer, 1, push_of(1000)});
    BOOST_TEST(inbox.wait(i).size() == i);
  }
  BOOST_TEST(mapped_segments() == 2);  // each one's doorbell
}

BOOST_AUTO_TEST_CASE(AnOfferOfWhatIsNotThereIsDeclined) {
  auto server = open();
  zmq::context_t context;
  zmq::socket_t stranger(context, zmq::socket_type::dealer);
  stranger.set(zmq::sockopt::linger, 0);
  stranger.set(zmq::sockopt::rcvtimeo, 10'000);
  stranger.connect(server->address().address);
  const SharedFrame offer{SharedFrame::Kind::offer, {::getpid(), 0, 1, 1 << 20}, {}};
  stranger.send(zmq::buffer(to_bytes(offer)));
  zmq::message_t answer;
  BOOST_REQUIRE(stranger.recv(answer));
  const auto frame = shared_frame_in({answer.data<std::byte>(), answer.size()});
  BOOST_REQUIRE(frame);
  BOOST_TEST((frame->kind == SharedFrame::Kind::decline));
  BOOST_TEST((frame->ring == offer.ring));
}

BOOST_AUTO_TEST_CASE(AnAnswerToNoOfferIsIgnored) {
  auto server = open();
  Inbox inbox;
  server->attach(kServer, inbox.sink());
  zmq::context_t context;
  zmq::socket_t stranger(context, zmq::socket_type::dealer);
  stranger.set(zmq::sockopt::linger, 0);
  stranger.connect(server->address().address);
  for (const auto kind : {SharedFrame::Kind::accept, SharedFrame::Kind::decline})
    stranger.send(zmq::buffer(to_bytes({kind, {::getpid(), 0, 1, 1 << 20}, {::getpid(), 0, 1, 4}})));
  stranger.send(zmq::buffer(wire::encode({kWorker, kServer, 1, Pull{}}, 0).head));
  BOOST_TEST(inbox.wait(1).size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
