#include <boost/test/unit_test.hpp>
#include <mutex>

#include <troupe/ps/transport/network_transport.h>

#include <tests/support/child_process.h>
#include <tests/support/inbox.h>
#include <tests/support/network.h>
#include <tests/support/temp_folder.h>
#include <tests/support/tensors.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(network_process)

namespace {

/// A process with a server that answers each push by a PullReply with twice the gradient. Its address is its first
/// line; it learns where the worker is from the worker's messages alone.
void doubling_server(int channel, const std::string& listen) {
  auto transport = open({.listen = listen});
  transport->attach(kServer, [&](EnvelopePtr envelope) {
    const auto& pushed = std::get<Push>(envelope->body);
    Tensor twice = pushed.gradients[0].clone();
    for (float& value : twice.span<float>()) value *= 2;
    PullReply reply;
    reply.ticket = pushed.sequence;
    reply.values = {twice};
    transport->send({kServer, envelope->from, 1, reply});
  });
  ChildProcess::tell(channel, transport->address().address);
  ::pause();
}

Routes routes_to(const NodeAddress& self, const std::string& address) {
  return routes_of({{self, {kWorker}}, {{1, address, "", ""}, {kServer}}});
}

/// Gradients of all sizes there and twice of them back.
void exchange(const std::string& listen_server, const std::string& listen_worker) {
  ChildProcess server([&](int channel) { doubling_server(channel, listen_server); });
  const std::string address = server.line();
  Inbox inbox;
  auto worker = open({.listen = listen_worker});
  worker->attach(kWorker, inbox.sink());
  worker->set_self(0);
  worker->set_routes(routes_to(worker->address(), address));
  size_t count = 0;
  for (const int64_t elements : {1, 7, 8, 9, 1023, 2048, 2049, 16384, 262144, 1000003}) {
    const Tensor gradient = ramp(elements, 3);
    worker->send(push(gradient, ++count));
    const auto all = inbox.wait(count);
    BOOST_REQUIRE_EQUAL(all.size(), count);
    const auto& reply = std::get<PullReply>(all.back()->body);
    BOOST_TEST(reply.ticket == count);
    BOOST_REQUIRE_EQUAL(reply.values.size(), 1u);
    Tensor expected = gradient.clone();
    for (float& value : expected.span<float>()) value *= 2;
    BOOST_TEST(same_bits(reply.values[0], expected));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(TensorsTravelBetweenProcessesOverTcp) { exchange("tcp://127.0.0.1:0", "tcp://127.0.0.1:0"); }

BOOST_AUTO_TEST_CASE(TensorsTravelBetweenProcessesOverIpc) {
  TempFolder folder;
  exchange("ipc://" + folder / "server", "ipc://" + folder / "worker");
}

BOOST_AUTO_TEST_CASE(AProcessThatOnlyAsksIsAnsweredOverItsOwnConnection) { exchange("tcp://127.0.0.1:0", ""); }

BOOST_AUTO_TEST_CASE(AKilledProcessIsReported) {
  ChildProcess server([](int channel) { doubling_server(channel, "tcp://127.0.0.1:0"); });
  const std::string address = server.line();
  Inbox inbox;
  std::mutex mutex;
  std::vector<uint32_t> lost;
  auto worker = open({.on_peer_lost = [&](uint32_t node) {
    std::lock_guard lock(mutex);
    lost.push_back(node);
  }});
  worker->attach(kWorker, inbox.sink());
  worker->set_self(0);
  worker->set_routes(routes_to(worker->address(), address));
  worker->send(push(ramp(10)));
  BOOST_REQUIRE_EQUAL(inbox.wait(1).size(), 1u);
  server.end(SIGKILL);
  BOOST_TEST(eventually([&] {
    std::lock_guard lock(mutex);
    return lost == std::vector<uint32_t>{1};
  }));
  worker->close();
}

BOOST_AUTO_TEST_CASE(MessagesWaitForAStoppedProcessAndTheUrgentGoesFirst) {
  ChildProcess server([](int channel) { doubling_server(channel, "tcp://127.0.0.1:0"); });
  const std::string address = server.line();
  Inbox inbox;
  auto worker = open();
  worker->attach(kWorker, inbox.sink());
  worker->set_self(0);
  worker->set_routes(routes_to(worker->address(), address));
  worker->send(push(ramp(10), 1));
  BOOST_REQUIRE_EQUAL(inbox.wait(1).size(), 1u);
  server.signal(SIGSTOP);
  // More than the kernel and the window hold.
  const Tensor gradient = ramp(1 << 20);
  for (Sequence s = 2; s <= 9; ++s) worker->send(push(gradient, s, 5));
  BOOST_TEST(worker->counters().queued_messages() > 0);
  worker->send(push(ramp(10), 10, 0));
  server.signal(SIGCONT);
  const auto all = inbox.wait(10);
  BOOST_REQUIRE_EQUAL(all.size(), 10u);
  BOOST_TEST(std::get<PullReply>(all.back()->body).ticket == 9u);
}

BOOST_AUTO_TEST_SUITE_END()
