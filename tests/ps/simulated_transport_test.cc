#include <boost/test/unit_test.hpp>
#include <vector>

#include <troupe/ps/transport/simulated_transport.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(simulated_transport)

namespace {

constexpr Endpoint kFrom{Role::worker, 0, 1}, kTo{Role::server, 0, 1};
constexpr int64_t kMessages = 20'000;

struct Delivered {
  int64_t at_us;
  uint64_t number;
};

/// Sends `messages` numbered ones, 10 us apart, and takes all that arrive.
std::vector<Delivered> run(SimulatedTransport& transport, int64_t messages = kMessages) {
  std::vector<Delivered> delivered;
  int64_t now_us = 0;
  transport.attach(kTo, [&](const EnvelopePtr& e) {
    delivered.push_back({now_us, std::get<WorkRequest>(e->body).number});
  });
  for (int64_t i = 0; i < messages; ++i) {
    transport.set_now_us(i * 10);
    transport.send({kFrom, kTo, 1, WorkRequest{static_cast<uint64_t>(i)}});
  }
  while (!transport.empty()) {
    now_us = transport.next_us();
    transport.deliver_next();
  }
  return delivered;
}

}  // namespace

BOOST_AUTO_TEST_CASE(LossAndDuplicationHappenAtTheirRates) {
  SimulatedTransport transport(1, {0.1, 0.05, 50, 5000});
  const auto delivered = run(transport);
  const auto counts = transport.counts();
  BOOST_TEST(counts.sent == kMessages);
  BOOST_TEST(static_cast<double>(counts.lost) / kMessages == 0.1, boost::test_tools::tolerance(0.05));
  BOOST_TEST(static_cast<double>(counts.doubled) / kMessages == 0.05, boost::test_tools::tolerance(0.05));
  BOOST_TEST(static_cast<int64_t>(delivered.size()) == counts.sent - counts.lost + counts.doubled);
  BOOST_TEST(counts.delivered == static_cast<int64_t>(delivered.size()));
}

BOOST_AUTO_TEST_CASE(DelaysFillTheirRangeAndMessagesOvertake) {
  SimulatedTransport transport(2, {0, 0, 50, 5000});
  int64_t shortest = 1'000'000, longest = 0, overtaken = 0;
  uint64_t newest = 0;
  double sum = 0;
  for (const Delivered& d : run(transport)) {
    const int64_t delay = d.at_us - static_cast<int64_t>(d.number) * 10;
    shortest = std::min(shortest, delay), longest = std::max(longest, delay);
    sum += static_cast<double>(delay);
    overtaken += d.number < newest;
    newest = std::max(newest, d.number);
  }
  BOOST_TEST(shortest >= 50);
  BOOST_TEST(longest <= 5000);
  BOOST_TEST(shortest < 70);
  BOOST_TEST(longest > 4980);
  BOOST_TEST(sum / kMessages == 2525, boost::test_tools::tolerance(0.03));
  BOOST_TEST(overtaken > kMessages / 2);
}

BOOST_AUTO_TEST_CASE(ASoundNetworkDeliversEverythingOnceInOrder) {
  SimulatedTransport transport(3, {0.5, 0.5, 50, 5000});
  transport.heal();
  uint64_t next = 0;
  for (const Delivered& d : run(transport)) BOOST_TEST_REQUIRE(d.number == next++);
  BOOST_TEST(next == static_cast<uint64_t>(kMessages));
}

BOOST_AUTO_TEST_CASE(EqualSeedsDeliverAlike) {
  SimulatedTransport first(4, {0.2, 0.2, 50, 5000}), second(4, {0.2, 0.2, 50, 5000});
  const auto a = run(first, 500), b = run(second, 500);
  BOOST_TEST_REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) BOOST_TEST((a[i].at_us == b[i].at_us && a[i].number == b[i].number));
}

BOOST_AUTO_TEST_CASE(WhatNobodyAttachedIsCounted) {
  SimulatedTransport transport(5, {0, 0, 50, 60});
  transport.send({kFrom, kTo, 1, WorkRequest{1}});
  transport.deliver_next();
  BOOST_TEST(transport.counts().unattached == 1);
  BOOST_TEST(transport.counts().delivered == 0);
}

BOOST_AUTO_TEST_SUITE_END()
