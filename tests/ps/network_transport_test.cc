#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <troupe/ps/param/shard_image.h>
#include <troupe/ps/transport/network_transport.h>
#include <troupe/ps/transport/prompt_sink.h>

#include <tests/support/inbox.h>
#include <tests/support/network.h>
#include <tests/support/temp_folder.h>
#include <tests/support/tensors.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(network_transport)

namespace {

const Endpoint kClient{Role::client, 77, 1};

Envelope pull(const Endpoint& to, Step step = 0) { return {kWorker, to, 1, Pull{0, step}}; }

/// A worker's process and a server's, which know each other.
struct Pair {
  explicit Pair(NetworkOptions options = {}) : worker(open(options)), server(open(options)) {
    server->attach(kServer, at_server.sink());
    worker->attach(kWorker, at_worker.sink());
    connect({{worker, {kWorker}}, {server, {kServer}}});
  }
  ~Pair() {
    worker->close();
    server->close();
  }
  Inbox at_server, at_worker;
  TransportPtr worker, server;
};

/// One of every kind, with all that is optional in it.
std::vector<Message> every_kind() {
  const SliceState slice{2, ramp(16), {ramp(16, 5)}, 9};
  const std::vector<LayerSpec> layers = {{"fc1", 64, {{"fc1.weight", {8, 8}}}}, {"fc2", 32, {{"fc2.weight", {32}}}}};
  auto layout = std::make_shared<Layout>(make_layout(layers, {Policy{}, Policy{}}, {}));
  Membership membership;
  membership.generation = 4;
  membership.workers = {1, 2};
  membership.servers = {1};
  membership.layout = layout;
  membership.rebase = 12;
  auto image = std::make_shared<ShardImage>();
  image->membership = membership;
  image->slices = {slice};
  Push push_body;
  push_body.gradients = {ramp(64), ramp(32)};
  Push bare;
  bare.samples = 0;
  return {push_body,
          bare,
          PushAck{1, 2, 3},
          Pull{1, 2, 3},
          PullReply{1, 2, 3, {ramp(8)}, 1, {slice}},
          Refused{Refused::Reason::stale_generation, "why", 1, 2, 3},
          membership,
          MembershipAck{},
          WorkRequest{1},
          Work{1, Work::Kind::evaluate, 2, 3, 4, {0, 1, 2}},
          WorkDone{},
          WorkDoneAck{2},
          Partial{1, 2.5, false, "fc1"},
          Verdict{1, true, 0.5},
          Snapshot{1},
          SnapshotReply{1, {slice, slice}},
          Install{1, {slice}},
          InstallAck{1},
          StatsRequest{1},
          StatsReply{1, {LayerCounters{}}, 1, 2, 3},
          Fault{"broken"},
          Finish{},
          Down{kWorker, "why"},
          DownAck{kWorker},
          Spawn{kServer, Endpoint{Role::replica, 0, 1}, image},
          SpawnAck{kServer},
          Hello{"host:1", {1, "tcp://127.0.0.1:1", "", "h"}, true, false, 3},
          Welcome{{Role::node, 1, 1}, 9, "a = 1", "", 500},
          Rejected{"no"},
          Ready{layout->layers, 10, 20, "ab"},
          Heartbeat{1, 2, 3, 4},
          HeartbeatAck{1},
          Routes{3, {{1, "tcp://127.0.0.1:1", "", "h"}}, {{kServer, 1}}},
          Leave{},
          Replicate{1, std::make_shared<const Envelope>(push(ramp(64))), nullptr},
          Replicate{0, nullptr, image},
          ReplicateAck{1},
          Synced{kServer},
          SyncedAck{kServer},
          StatusRequest{},
          StatusReply{"{}"},
          StopRequest{},
          Activation{Activation::Kind::backward, 3, 1, 2, {0, 8, 4}, {ramp(64)}},
          ActivationAck{Activation::Kind::backward, 3, 1, 2},
          CollectiveId{"cuda", {1, 2}, std::string("\0id", 3), true, 7}};
}

void send_every_kind(const std::string& listen_worker, const std::string& listen_server) {
  Inbox inbox;
  std::string refused;
  auto worker = open({.listen = listen_worker});
  auto server = open({.listen = listen_server, .on_refused = [&](const Refusal& r) { refused = r.detail; }});
  server->attach(kServer, inbox.sink());
  connect({{worker, {kWorker}}, {server, {kServer}}});
  size_t count = 0;
  for (const Message& message : every_kind()) {
    const Envelope sent{kWorker, kServer, 7, message};
    worker->send(sent);
    const auto all = inbox.wait(++count);
    BOOST_REQUIRE_MESSAGE(all.size() == count, name_of(message) << ": " << refused);
    BOOST_TEST_CONTEXT(name_of(message)) {
      const auto before = wire::encode(sent, 0), after = wire::encode(*all.back(), 0);
      BOOST_TEST((before.head == after.head));  // checksums of the tensors included
      BOOST_TEST(before.payloads.size() == after.payloads.size());
    }
  }
  BOOST_TEST(server->counters().received_messages == static_cast<int64_t>(count));
  BOOST_TEST(server->counters().refused_in_all() == 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(WhatIsSmallAndComesFromOutsideMayBeDoneOnTheTransportsThread) {
  auto worker = open({}), server = open({});
  Inbox handed_over, taken_here;
  server->attach(kServer, PromptSink(handed_over.sink(), taken_here.sink(), 128 << 10));
  connect({{worker, {kWorker}}, {server, {kServer}}});
  worker->send(pull(kServer));
  BOOST_TEST(taken_here.wait(1).size() == 1u);
  BOOST_TEST(handed_over.size() == 0u);
  worker->send(push(ramp(1 << 20)));
  BOOST_TEST(handed_over.wait(1).size() == 1u);
  BOOST_TEST(taken_here.size() == 1u);
  server->send(pull(kServer));  // from here, where the sender's thread has its own work
  BOOST_TEST(handed_over.wait(2).size() == 2u);
  worker->close();
  server->close();
}

BOOST_AUTO_TEST_CASE(EveryKindOfMessageArrivesAsItWasSentOverTcp) {
  send_every_kind("tcp://127.0.0.1:0", "tcp://127.0.0.1:0");
}

BOOST_AUTO_TEST_CASE(EveryKindOfMessageArrivesAsItWasSentOverIpc) {
  TempFolder folder;
  send_every_kind("ipc://" + folder / "worker", "ipc://" + folder / "server");
}

BOOST_AUTO_TEST_CASE(AMessageInsideTheProcessIsHandedOverWithoutACopy) {
  auto transport = open();
  Inbox inbox;
  transport->attach(kServer, inbox.sink());
  const Tensor gradient = ramp(1000);
  transport->send(push(gradient));
  const auto all = inbox.wait(1);
  BOOST_REQUIRE_EQUAL(all.size(), 1u);
  BOOST_TEST((std::get<Push>(all[0]->body).gradients[0].raw() == gradient.raw()));
  BOOST_TEST(transport->counters().local_messages == 1);
  BOOST_TEST(transport->counters().sent_messages == 0);
  BOOST_TEST(!transport->reliable());
}

BOOST_AUTO_TEST_CASE(LargeTensorsArriveWhole) {
  Pair pair;
  const Tensor gradient = ramp(3'000'001);
  for (Sequence s = 1; s <= 3; ++s) pair.worker->send(push(gradient, s));
  const auto all = pair.at_server.wait(3);
  BOOST_REQUIRE_EQUAL(all.size(), 3u);
  for (const auto& envelope : all) BOOST_TEST(same_bits(std::get<Push>(envelope->body).gradients[0], gradient));
}

// Over sockets: what goes through shared memory, once that is there, overtakes what waits for a socket.
BOOST_AUTO_TEST_CASE(MessagesOfEqualUrgencyKeepTheirOrder) {
  Pair pair({.window_bytes = 4096, .shared_memory = false});
  constexpr Step kCount = 2000;
  for (Step step = 0; step < kCount; ++step) pair.worker->send(pull(kServer, step));
  const auto all = pair.at_server.wait(kCount);
  BOOST_REQUIRE_EQUAL(all.size(), static_cast<size_t>(kCount));
  for (Step step = 0; step < kCount; ++step)
    BOOST_REQUIRE_EQUAL(std::get<Pull>(all[static_cast<size_t>(step)]->body).step, step);
}

BOOST_AUTO_TEST_CASE(TheMoreUrgentOvertakesWhatWaits) {
  TempFolder folder;
  Inbox inbox;
  auto server = open({.listen = "ipc://" + folder / "listening"});
  server->attach(kServer, inbox.sink());
  auto worker = open();
  // Nobody is found there yet, so that everything waits.
  worker->set_routes(
      routes_of({{worker->address(), {kWorker}}, {{1, "ipc://" + folder / "server", "", ""}, {kServer}}}));
  worker->send(push(ramp(1000), 1, 5));
  worker->send(push(ramp(1000), 2, 1));
  worker->send({kWorker, kServer, 1, SnapshotReply{1, {SliceState{0, ramp(16), {}, 1}}}});
  worker->send(push(ramp(1000), 3, 1));
  worker->send(pull(kServer, 42));
  std::filesystem::create_symlink(folder / "listening", folder / "server");
  const auto all = inbox.wait(5);
  BOOST_REQUIRE_EQUAL(all.size(), 5u);
  BOOST_TEST(std::get<Pull>(all[0]->body).step == 42);
  BOOST_TEST(std::get<Push>(all[1]->body).sequence == 2u);
  BOOST_TEST(std::get<Push>(all[2]->body).sequence == 3u);
  BOOST_TEST(std::get<Push>(all[3]->body).sequence == 1u);
  BOOST_TEST(std::holds_alternative<SnapshotReply>(all[4]->body));
}

BOOST_AUTO_TEST_CASE(WhatAStalledPeerIsSentStaysWithinItsBound) {
  TempFolder folder;
  auto worker = open({.queue_messages = 10});
  worker->set_routes(routes_of({{worker->address(), {}}, {{1, "ipc://" + folder / "nobody", "", ""}, {kServer}}}));
  for (Sequence s = 1; s <= 100; ++s) worker->send(push(ramp(100), s));
  BOOST_TEST(worker->counters().queued_messages() == 10);
  BOOST_TEST(worker->counters().dropped_full == 90);
}

BOOST_AUTO_TEST_CASE(ARepetitionOfWhatStillWaitsIsDropped) {
  TempFolder folder;
  auto worker = open();
  worker->set_routes(routes_of({{worker->address(), {}}, {{1, "ipc://" + folder / "nobody", "", ""}, {kServer}}}));
  const Tensor gradient = ramp(100);
  for (int i = 0; i < 50; ++i) worker->send(push(gradient));
  BOOST_TEST(worker->counters().queued_messages() == 1);
  BOOST_TEST(worker->counters().dropped_repeated == 49);
}

BOOST_AUTO_TEST_CASE(AnAnswerToSomebodyWithoutARouteGoesBackTheWayHisMessageCame) {
  Inbox at_coordinator, at_client;
  auto coordinator = open();
  coordinator->attach(kCoordinator, at_coordinator.sink());
  auto client = open({.listen = "", .home = coordinator->address().address});
  client->attach(kClient, at_client.sink());
  BOOST_TEST(client->address().address == "");
  for (int i = 1; i <= 3; ++i) {
    client->send({kClient, kCoordinator, 0, StatusRequest{}});
    BOOST_REQUIRE_EQUAL(at_coordinator.wait(static_cast<size_t>(i)).size(), static_cast<size_t>(i));
    coordinator->send({kCoordinator, kClient, 0, StatusReply{"{}"}});
    BOOST_REQUIRE_EQUAL(at_client.wait(static_cast<size_t>(i)).size(), static_cast<size_t>(i));
  }
}

BOOST_AUTO_TEST_CASE(AMessageToNobodyIsDroppedAndCounted) {
  Pair pair;
  pair.worker->send(pull({Role::server, 9, 1}));
  BOOST_TEST(pair.worker->counters().dropped_unreachable == 1);
  pair.server->detach(kServer);
  pair.worker->send(pull(kServer));
  BOOST_TEST(eventually([&] { return pair.server->counters().dropped_unattached == 1; }));
}

BOOST_AUTO_TEST_CASE(OlderRoutesAreIgnored) {
  Pair pair;
  connect({{pair.worker, {kWorker}}, {pair.server, {}}}, 1);  // the version that is known
  pair.worker->send(pull(kServer));
  BOOST_TEST(pair.at_server.wait(1).size() == 1u);
}

BOOST_AUTO_TEST_CASE(WhatWaitsForANodeThatVanishedIsDropped) {
  TempFolder folder;
  auto worker = open();
  worker->set_self(0);
  worker->set_routes(routes_of({{worker->address(), {}}, {{1, "ipc://" + folder / "nobody", "", ""}, {kServer}}}, 1));
  worker->send(push(ramp(100)));
  worker->set_routes(routes_of({{worker->address(), {}}}, 2));
  BOOST_TEST(worker->counters().peers.empty());
  BOOST_TEST(worker->counters().dropped_unreachable == 1);
}

BOOST_AUTO_TEST_CASE(APeerThatComesBackAtItsAddressIsFoundAgain) {
  Inbox inbox;
  auto worker = open();
  auto server = open();
  const std::string address = server->address().address;
  server->attach(kServer, inbox.sink());
  connect({{worker, {kWorker}}, {server, {kServer}}});
  worker->send(pull(kServer, 1));
  BOOST_REQUIRE_EQUAL(inbox.wait(1).size(), 1u);
  server.reset();
  server = open({.listen = address});
  server->attach(kServer, inbox.sink());
  // What was under way as the connection broke may be lost: it is repeated, as senders do.
  Step step = 2;
  BOOST_TEST(eventually([&] {
    worker->send(pull(kServer, step++));
    return inbox.size() > 1;
  }));
  BOOST_TEST(eventually([&] { return worker->counters().connections_lost == 1; }));
}

BOOST_AUTO_TEST_CASE(ThePeerThatGoesAwayIsReported) {
  std::mutex mutex;
  std::vector<uint32_t> lost;
  Inbox inbox;
  auto worker = open({.on_peer_lost = [&](uint32_t node) {
    std::lock_guard lock(mutex);
    lost.push_back(node);
  }});
  auto server = open();
  server->attach(kServer, inbox.sink());
  connect({{worker, {kWorker}}, {server, {kServer}}});
  worker->send(pull(kServer));
  BOOST_REQUIRE_EQUAL(inbox.wait(1).size(), 1u);
  server->close();
  BOOST_TEST(eventually([&] {
    std::lock_guard lock(mutex);
    return lost == std::vector<uint32_t>{1};
  }));
  worker->close();
}

BOOST_AUTO_TEST_CASE(WhatWasSentBeforeClosingArrives) {
  Pair pair;
  const Tensor gradient = ramp(1 << 18);
  for (Sequence s = 1; s <= 40; ++s) pair.worker->send(push(gradient, s));
  BOOST_TEST(eventually([&] { return pair.worker->counters().sent_messages > 0; }));
  pair.worker->close();
  BOOST_TEST(pair.at_server.wait(40).size() == 40u);
}

BOOST_AUTO_TEST_CASE(ATransportCanBeOpenedClosedAndOpenedAgain) {
  for (int i = 0; i < 5; ++i) {
    Pair pair;
    pair.worker->send(pull(kServer));
    BOOST_REQUIRE_EQUAL(pair.at_server.wait(1).size(), 1u);
    pair.server->send({kServer, kWorker, 1, PushAck{}});
    BOOST_REQUIRE_EQUAL(pair.at_worker.wait(1).size(), 1u);
  }
}

BOOST_AUTO_TEST_CASE(SeveralThreadsMayCloseATransport) {
  for (int i = 0; i < 20; ++i) {
    Pair pair;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) threads.emplace_back([&] { pair.worker->close(); });
    for (auto& thread : threads) thread.join();
  }
}

BOOST_AUTO_TEST_CASE(ManyThreadsMaySendAtOnce) {
  Pair pair({.window_bytes = 32 << 10});
  constexpr int kThreads = 4, kEach = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) pair.worker->send(push(ramp(500), static_cast<Sequence>(t * kEach + i + 1)));
    });
  for (auto& thread : threads) thread.join();
  const auto all = pair.at_server.wait(kThreads * kEach);
  BOOST_REQUIRE_EQUAL(all.size(), static_cast<size_t>(kThreads * kEach));
  std::vector<bool> seen(kThreads * kEach + 1, false);
  for (const auto& envelope : all) seen[std::get<Push>(envelope->body).sequence] = true;
  BOOST_TEST(std::count(seen.begin(), seen.end(), true) == kThreads * kEach);
}

BOOST_AUTO_TEST_SUITE_END()
