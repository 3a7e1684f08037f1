#include <boost/test/unit_test.hpp>

#include <cmath>

#include <troupe/ps/param/combined_push.h>

#include <tests/support/shard_world.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;

namespace {

/// Three workers and a sync layer.
struct World : ShardWorld {
  World() : ShardWorld({{Mode::sync, 0}}, 3) { run(); }

  /// Worker 0's push of the sum over itself and `others`.
  Envelope combined(Step step, float sum, int64_t samples, std::vector<WorkerId> others) {
    Envelope envelope = push_of(0, 0, step, sum, samples);
    cover(std::get<Push>(envelope.body), others);
    return envelope;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(combined_push)

BOOST_AUTO_TEST_CASE(ItCountsForItsSenderAndThoseItCovers) {
  World w;
  BOOST_TEST(only<PushAck>(w.shard->handle(w.combined(0, 6, 4, {1}))).size() == 1u);
  BOOST_TEST(w.value(0) == 0);
  w.push(2, 0, 0, 2, 4);
  BOOST_TEST(w.value(0) == -1);  // (6 + 2) over 8 samples
}

BOOST_AUTO_TEST_CASE(ACoveredWorkersOwnPushIsAcknowledgedAndChangesNothing) {
  World w;
  w.shard->handle(w.combined(0, 6, 4, {1}));
  BOOST_TEST(only<PushAck>(w.push(1, 0, 0, 0, 0)).size() == 1u);
  BOOST_TEST(w.stats().duplicates_dropped == 0);  // it was expected
  w.push(2, 0, 0, 2, 4);
  BOOST_TEST(w.value(0) == -1);
  BOOST_TEST(only<PushAck>(w.push(1, 0, 1, 1, 1)).size() == 1u);  // its sequence goes on
}

BOOST_AUTO_TEST_CASE(WhatACoveredWorkerRepeatsAfterARestartIsDropped) {
  World w;
  w.shard->handle(w.combined(0, 6, 4, {1}));
  w.restart_worker(1);
  w.push(1, 0, 0, 3, 2);
  BOOST_TEST(w.stats().duplicates_dropped == 1);
  w.push(2, 0, 0, 2, 4);
  BOOST_TEST(w.value(0) == -1);
}

BOOST_AUTO_TEST_CASE(AServerThatIsStartedAgainKnowsWhomItCovered) {
  World w;
  w.shard->handle(w.combined(0, 6, 4, {1}));
  w.restart_server();
  w.push(1, 0, 0, 3, 2);
  w.push(2, 0, 0, 2, 4);
  BOOST_TEST(w.value(0) == -1);
}

BOOST_AUTO_TEST_CASE(AnImageKnowsWhomItCovered) {
  World w;
  w.shard->handle(w.combined(0, 6, 4, {1}));
  const ShardImage image = w.shard->image();
  ++w.options.self.incarnation;
  const auto first = [](const Slice&) { return SliceState{}; };
  w.shard = std::move(*Shard::make_from(image, w.options, make_null_store(), first));
  ++w.generation;
  w.admit();
  w.push(1, 0, 0, 3, 2);
  w.push(2, 0, 0, 2, 4);
  BOOST_TEST(w.value(0) == -1);
}

BOOST_AUTO_TEST_CASE(WithoutSamplesItCoversAllTheSame) {
  World w;
  w.shard->handle(w.combined(0, 0, 0, {1}));
  w.push(2, 0, 0, 2, 2);
  BOOST_TEST(w.value(0) == -1);
}

BOOST_AUTO_TEST_CASE(WhoHasContributedIsNotCoveredAgain) {
  World w;
  w.push(1, 0, 0, 3, 2);
  BOOST_TEST(only<Refused>(w.shard->handle(w.combined(0, 6, 4, {1}))).size() == 1u);
}

BOOST_AUTO_TEST_CASE(NobodyButAWorkerIsCovered) {
  World w;
  for (const auto& others : {std::vector<WorkerId>{3}, std::vector<WorkerId>{0}, std::vector<WorkerId>{1, 1000}})
    BOOST_TEST(only<Refused>(w.shard->handle(w.combined(0, 6, 4, others))).size() == 1u);
}

BOOST_AUTO_TEST_CASE(ANumberThatIsNoWorkersIsRefused) {
  World w;
  for (const float number : {-1.0f, 0.5f, std::nanf(""), 1e20f}) {
    Envelope envelope = w.push_of(0, 0, 0, 6, 4);
    std::get<Push>(envelope.body).gradients.push_back(ShardWorld::filled(1, number));
    --w.sent[0];
    BOOST_TEST(only<Refused>(w.shard->handle(envelope)).size() == 1u);
  }
}

BOOST_AUTO_TEST_SUITE_END()
