#include <boost/test/unit_test.hpp>

#include <chrono>
#include <future>
#include <thread>

#include <troupe/actors/node_run.h>
#include <troupe/ps/transport/memory_transport.h>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(node_run)

namespace {

/// Welcomed by whoever listens to Hello on `transport`.
NodeRunParts parts_on(const std::shared_ptr<ps::MemoryTransport>& transport) {
  NodeRunParts parts;
  parts.transport = transport;
  parts.welcomed = [](const ps::Welcome&) {};
  parts.set_routes = [](const ps::Routes&) {};
  parts.measure = [] { return ps::Heartbeat{}; };
  parts.prepare = [](const ps::Welcome&) -> Result<ClusterParts> { return fail(ErrorKind::failed, "not wanted here"); };
  return parts;
}

}  // namespace

BOOST_AUTO_TEST_CASE(AnotherThreadMayEndANode) {
  auto run = NodeRun::join(parts_on(std::make_shared<ps::MemoryTransport>()));
  std::thread([&] { run.reset(); }).join();
  BOOST_TEST(!run);
}

// The thread that prepares for the run goes with the node; whoever is welcomed in that moment must still find it.
BOOST_AUTO_TEST_CASE(ANodeMayBeDroppedWhileItIsWelcomed) {
  const ps::Endpoint coordinator{ps::Role::coordinator, 0, 1};
  const auto transport = std::make_shared<ps::MemoryTransport>();
  transport->attach(coordinator, [&](const ps::EnvelopePtr& envelope) {
    if (std::holds_alternative<ps::Hello>(envelope->body))
      transport->send({coordinator, envelope->from, 1, ps::Welcome{.node = {ps::Role::node, 0, 1}}});
  });
  std::promise<void> welcomed, dropped;
  bool left_behind = false;
  NodeRunParts parts = parts_on(transport);
  parts.welcomed = [&](const ps::Welcome&) {
    welcomed.set_value();  // the drop begins, and has to wait for what comes after this
    left_behind = dropped.get_future().wait_for(std::chrono::milliseconds(50)) == std::future_status::ready;
  };
  auto run = NodeRun::join(std::move(parts));
  welcomed.get_future().wait();
  run.reset();
  dropped.set_value();
  BOOST_TEST(!left_behind);
}

BOOST_AUTO_TEST_SUITE_END()
