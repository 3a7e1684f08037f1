#include <boost/test/unit_test.hpp>

#include <troupe/ps/transport/internal/return_paths.h>
#include <troupe/ps/transport/internal/send_queue.h>
#include <troupe/ps/transport/internal/urgency.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(send_queue)

namespace {

Outgoing message(uint32_t urgency, uint8_t name, size_t bytes = 1) {
  Outgoing out;
  out.urgency = urgency;
  out.frames.head.assign(bytes, std::byte{name});
  return out;
}

std::string names(SendQueue& queue) {
  std::string all;
  while (!queue.empty()) all += static_cast<char>(queue.pop().mapped().frames.head[0]);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(UrgencyDecidesThenArrival) {
  SendQueue queue({});
  for (const auto& [urgency, name] : {std::pair{5, 'a'}, {0, 'b'}, {5, 'c'}, {2, 'd'}, {0, 'e'}})
    queue.push(message(static_cast<uint32_t>(urgency), static_cast<uint8_t>(name)));
  BOOST_TEST(names(queue) == "bedac");
  BOOST_TEST(queue.bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(WhatIsPutBackHasItsPlaceAgain) {
  SendQueue queue({});
  queue.push(message(1, 'a'));
  queue.push(message(1, 'b'));
  auto first = queue.pop();
  queue.push(message(1, 'c'));
  queue.put_back(std::move(first));
  BOOST_TEST(queue.messages() == 3u);
  BOOST_TEST(names(queue) == "abc");
}

BOOST_AUTO_TEST_CASE(AFullQueueDropsTheLeastUrgentNewestFirst) {
  SendQueue queue({.messages = 3});
  queue.push(message(5, 'a'));
  queue.push(message(5, 'b'));
  queue.push(message(2, 'c'));
  BOOST_TEST(queue.push(message(0, 'd')).dropped == 1u);
  BOOST_TEST(queue.push(message(9, 'e')).dropped == 1u);
  BOOST_TEST(names(queue) == "dca");
}

BOOST_AUTO_TEST_CASE(BytesAreBoundedToo) {
  SendQueue queue({.bytes = 3000});
  queue.push(message(5, 'a', 1000));
  queue.push(message(5, 'b', 1000));
  BOOST_TEST(queue.push(message(5, 'c', 1000)).dropped == 1u);
  BOOST_TEST(queue.push(message(1, 'd', 1000)).dropped == 1u);
  BOOST_TEST(queue.bytes() <= 3000u);
  BOOST_TEST(names(queue) == "da");
}

BOOST_AUTO_TEST_CASE(AnEmptyQueueTakesAMessageOfAnySize) {
  SendQueue queue({.bytes = 10});
  BOOST_TEST(queue.push(message(5, 'a', 1000)).dropped == 0u);
  BOOST_TEST(names(queue) == "a");
}

BOOST_AUTO_TEST_CASE(ARepetitionIsKnownUntilTheMessageLeaves) {
  SendQueue queue({});
  BOOST_TEST(!queue.push(message(5, 'a')).repeated);
  BOOST_TEST(queue.push(message(5, 'a')).repeated);
  queue.pop();
  BOOST_TEST(!queue.push(message(5, 'a')).repeated);
}

BOOST_AUTO_TEST_CASE(ControlGoesFirstThenLayersInOrderThenImages) {
  Push low, high, bare;
  low.parcel = 1;
  high.parcel = 7;
  low.gradients = high.gradients = {Tensor::zeros({1})};
  bare.parcel = 9;
  PullReply reply;
  reply.parcel = 1;
  Replicate event;
  event.event = std::make_shared<const Envelope>(Envelope{{}, {}, 1, high});
  BOOST_TEST(urgency_of(Heartbeat{}) == 0u);
  BOOST_TEST(urgency_of(bare) == 0u);
  BOOST_TEST(urgency_of(low) == urgency_of(reply));
  BOOST_TEST(urgency_of(Heartbeat{}) < urgency_of(low));
  BOOST_TEST(urgency_of(low) < urgency_of(high));
  BOOST_TEST(urgency_of(high) == urgency_of(event));
  BOOST_TEST(urgency_of(high) < urgency_of(SnapshotReply{}));
}

BOOST_AUTO_TEST_CASE(OnlyTheNewestReturnPathsAreKept) {
  ReturnPaths paths(3);
  const auto client = [](uint32_t index) { return Endpoint{Role::client, index, 1}; };
  for (uint32_t i = 0; i < 3; ++i) paths.learn(client(i), std::to_string(i));
  paths.learn(client(0), "new");
  paths.learn(client(3), "3");
  BOOST_TEST(paths.size() == 3u);
  BOOST_TEST(paths.to(client(0)) == "new");
  BOOST_TEST(paths.to(client(1)) == "");
  BOOST_TEST(paths.to(client(2)) == "2");
  BOOST_TEST(paths.to(client(3)) == "3");
}

BOOST_AUTO_TEST_SUITE_END()
