#include <boost/test/unit_test.hpp>

#include <troupe/ps/transport/memory_transport.h>
#include <troupe/ps/transport/metered_transport.h>

using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(metered_transport)

namespace {

const Endpoint kServer{Role::server, 0, 1}, kWorker{Role::worker, 0, 1};

struct World {
  MeteredTransport transport{std::make_shared<MemoryTransport>()};
  std::vector<EnvelopePtr> mailbox;

  World() {
    transport.attach(kServer, [this](EnvelopePtr e) { mailbox.push_back(std::move(e)); });
  }
  void send(int messages) {
    for (int i = 0; i < messages; ++i) transport.send({kWorker, kServer, 1, Pull{0, i}});
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(MessagesThatAreNotDroppedYetAreWaiting, World) {
  send(3);
  BOOST_TEST(transport.most_waiting(Role::server) == 3);
}

BOOST_FIXTURE_TEST_CASE(WhatIsDroppedWaitsNoMore, World) {
  for (int i = 0; i < 5; ++i) {
    send(1);
    mailbox.clear();
  }
  BOOST_TEST(transport.most_waiting(Role::server) == 1);
  BOOST_TEST(transport.delivered(Role::server) == 5);
}

BOOST_FIXTURE_TEST_CASE(OtherRolesAreCountedApart, World) {
  send(2);
  BOOST_TEST(transport.most_waiting(Role::worker) == 0);
  BOOST_TEST(transport.delivered(Role::worker) == 0);
}

BOOST_FIXTURE_TEST_CASE(TheMessageThatArrivesIsTheOneThatWasSent, World) {
  send(2);
  BOOST_REQUIRE(mailbox.size() == 2u);
  BOOST_TEST(std::get<Pull>(mailbox[1]->body).step == 1);
  BOOST_TEST((mailbox[1]->from == kWorker));
}

BOOST_AUTO_TEST_SUITE_END()
