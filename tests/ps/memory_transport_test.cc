#include <boost/test/unit_test.hpp>
#include <thread>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/transport/memory_transport.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(memory_transport)

namespace {

const Endpoint kServer{Role::server, 0, 1};
const Endpoint kWorker{Role::worker, 1, 2};

Envelope pull(const Endpoint& to, Step step = 0) { return {kWorker, to, 1, Pull{0, step}}; }

}  // namespace

BOOST_AUTO_TEST_CASE(AMessageReachesTheSinkOfItsReceiverInOrder) {
  MemoryTransport transport;
  std::vector<Step> seen;
  transport.attach(kServer, [&](EnvelopePtr e) { seen.push_back(std::get<Pull>(e->body).step); });
  for (Step step = 0; step < 5; ++step) transport.send(pull(kServer, step));
  BOOST_TEST((seen == std::vector<Step>{0, 1, 2, 3, 4}));
  BOOST_TEST(transport.reliable());
}

BOOST_AUTO_TEST_CASE(AMessageToAnotherIncarnationIsDroppedAndCounted) {
  MemoryTransport transport;
  int seen = 0;
  transport.attach(kServer, [&](EnvelopePtr) { ++seen; });
  transport.send(pull({Role::server, 0, 2}));
  BOOST_TEST(seen == 0);
  BOOST_TEST(transport.dropped() == 1);
}

BOOST_AUTO_TEST_CASE(ADetachedEndpointHearsNothing) {
  MemoryTransport transport;
  int seen = 0;
  transport.attach(kServer, [&](EnvelopePtr) { ++seen; });
  transport.detach(kServer);
  transport.detach(kServer);
  transport.send(pull(kServer));
  BOOST_TEST(seen == 0);
  BOOST_TEST(transport.dropped() == 1);
}

BOOST_AUTO_TEST_CASE(ASinkMaySendAndDetach) {
  MemoryTransport transport;
  int answers = 0;
  transport.attach(kWorker, [&](EnvelopePtr) { ++answers; });
  transport.attach(kServer, [&](EnvelopePtr e) {
    transport.detach(kServer);
    transport.send({e->to, e->from, 1, PullReply{}});
  });
  transport.send(pull(kServer));
  transport.send(pull(kServer));
  BOOST_TEST(answers == 1);
  BOOST_TEST(transport.dropped() == 1);
}

BOOST_AUTO_TEST_CASE(AttachingTwiceIsABug) {
  MemoryTransport transport;
  transport.attach(kServer, [](EnvelopePtr) {});
  BOOST_CHECK_THROW(transport.attach(kServer, [](EnvelopePtr) {}), CheckFailure);
}

BOOST_AUTO_TEST_CASE(ThreadsMaySendWhileOthersComeAndGo) {
  MemoryTransport transport;
  std::atomic<int> seen{0};
  transport.attach(kServer, [&](EnvelopePtr) { ++seen; });
  std::thread churn([&] {
    for (int i = 0; i < 500; ++i) {
      transport.attach(kWorker, [](EnvelopePtr) {});
      transport.detach(kWorker);
    }
  });
  std::thread sender([&] {
    for (int i = 0; i < 1000; ++i) transport.send(pull(kServer));
  });
  for (int i = 0; i < 1000; ++i) transport.send(pull(kServer));
  churn.join();
  sender.join();
  BOOST_TEST(seen.load() == 2000);
}

BOOST_AUTO_TEST_SUITE_END()
