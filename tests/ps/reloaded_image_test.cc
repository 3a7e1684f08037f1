#include <boost/test/unit_test.hpp>

#include <troupe/ps/param/reloaded_image.h>

#include <tests/support/shard_world.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;

BOOST_AUTO_TEST_SUITE(reloaded_image)

namespace {

/// The server is lost and goes on with the slices of `then`, while its workers' next steps are these.
void reload(ShardWorld& world, std::vector<SliceState> then, const std::vector<Step>& next_steps) {
  Membership m = std::get<Membership>(world.membership().body);
  m.servers[0] = ++world.options.self.incarnation;
  auto made = Shard::make_from(troupe::ps::reloaded_image(m, 0, std::move(then), next_steps), world.options,
                               make_null_store(), [](const Slice&) { return SliceState{}; });
  BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  world.shard = std::move(*made);
  ++world.generation;
  BOOST_TEST(only<MembershipAck>(world.admit()).size() == 1u);
}

}  // namespace

BOOST_AUTO_TEST_CASE(WhatWasDealtBeforeTheLossIsAcknowledgedWithoutEffectAndWhatFollowsCounts) {
  ShardWorld world({{Mode::sync}, {Mode::async}});
  world.run();
  for (WorkerId w : {0, 1})
    for (ParcelId p : {0, 1}) world.push(w, p, 0);
  const auto then = world.shard->state();
  for (WorkerId w : {0, 1}) world.push(w, 0, 1, 8), world.push(w, 1, 1, 8);
  world.push(0, 0, 2, 8);  // and worker 1 is still at it
  reload(world, then, {3, 3});
  BOOST_TEST(world.value(0) == -1);
  BOOST_TEST(only<PushAck>(world.push(1, 0, 2, 8)).size() == 1u);
  BOOST_TEST(only<PushAck>(world.push(1, 1, 2, 8)).size() == 1u);
  BOOST_TEST(world.value(0) == -1);
  BOOST_TEST(world.value(1) == -2);
  BOOST_TEST(only<PullReply>(world.pull(1, 0, 2)).size() == 1u);
  BOOST_TEST(only<PullReply>(world.pull(1, 0, 3)).size() == 1u);
  for (WorkerId w : {0, 1}) BOOST_TEST(only<PushAck>(world.push(w, 0, 3, 2)).size() == 1u);
  BOOST_TEST(world.value(0) == -3);
  world.push(1, 1, 3, 4);
  BOOST_TEST(world.value(1) == -6);
}

BOOST_AUTO_TEST_CASE(SequencesGoOnWhereverTheyAreAndEachIsTakenOnce) {
  ShardWorld world({{Mode::async}, {Mode::async}});
  world.run();
  const auto then = world.shard->state();
  world.sent[0] = 5000;
  reload(world, then, {700, 700});
  const Envelope overtaken = world.push_of(0, 0, 700), first = world.push_of(0, 1, 700);
  for (const Envelope& e : {first, overtaken, first, overtaken})
    BOOST_TEST(only<PushAck>(world.shard->handle(e)).size() == 1u);
  for (SliceId slice : {0, 1}) BOOST_TEST(world.value(slice) == -1);
  for (Step step = 701; step < 900; ++step) BOOST_TEST(only<PushAck>(world.push(0, 0, step)).size() == 1u);
  BOOST_TEST(world.value(0) == -200);
}

BOOST_AUTO_TEST_CASE(ABoundedReadWaitsForWhoeverIsSlowestAsBeforeTheLoss) {
  ShardWorld world({{Mode::ssp, 1}});
  world.run();
  const auto then = world.shard->state();
  reload(world, then, {4, 7});
  BOOST_TEST(only<PullReply>(world.pull(1, 0, 5)).size() == 1u);
  BOOST_TEST(only<PullReply>(world.pull(1, 0, 6)).empty());
  BOOST_TEST(only<PullReply>(world.push(0, 0, 4)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(OptimizerStateComesFromTheCheckpoint) {
  ShardWorld world({{Mode::async}});
  world.options.optimizer = optimizer_of("sgd", 1, 0.5);
  world.run();
  world.push(0, 0, 0, 4);
  const auto then = world.shard->state();
  world.push(0, 0, 1, 100);
  reload(world, then, {2, 0});
  world.push(0, 0, 2, 1);  // momentum 4 / 2 + 1
  BOOST_TEST(world.value(0) == -4 - 3);
}

BOOST_AUTO_TEST_SUITE_END()
