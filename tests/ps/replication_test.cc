#include <boost/test/unit_test.hpp>

#include <algorithm>

#include <troupe/ps/checkpoint/logged_store.h>
#include <troupe/ps/control/replica_core.h>
#include <troupe/ps/control/replicated_store.h>
#include <troupe/ps/control/server_core.h>
#include <troupe/ps/wire/codec.h>

#include <tests/support/memory_disk.h>
#include <tests/support/shard_text.h>
#include <tests/support/shard_traffic.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;

BOOST_AUTO_TEST_SUITE(replication)

namespace {

// A server whose shard is the world's, and a replica. What they say to each other is carried by hand.
struct Pair {
  ShardWorld world;
  std::shared_ptr<ShardStore> store = make_replicated_store({});
  std::unique_ptr<ServerCore> server;
  std::unique_ptr<ReplicaCore> replica;
  Incarnation incarnation = 0;

  explicit Pair(std::vector<Policy> policies = {{Mode::async}}, int64_t row_width = 0)
      : world(std::move(policies), 2, row_width) {
    start();
  }

  void start() {
    server = std::make_unique<ServerCore>(world.options, std::make_unique<Shard>(world.options, store, zeros()), store);
  }
  Envelope membership() const {
    Envelope e = world.membership();
    std::get<Membership>(e.body).replicas = {incarnation};
    return e;
  }
  Outbox join() {
    ++incarnation, ++world.generation;
    replica = std::make_unique<ReplicaCore>(ReplicaOptions{{Role::replica, 0, incarnation}, world.options, zeros()});
    return server->handle(membership());
  }
  Outbox leave() {
    ++world.generation;
    Envelope e = membership();
    std::get<Membership>(e.body).replicas = {0};
    return server->handle(e);
  }
  // Everything for the other one is handed over until nobody says anything; what goes elsewhere is returned.
  Outbox settle(Outbox out) {
    Outbox elsewhere;
    for (size_t i = 0; i < out.size(); ++i) {
      const Envelope e = out[i];
      Outbox next;
      if (e.to.role == Role::replica && e.to.incarnation == incarnation)
        next = replica->handle(e);
      else if (e.to == world.options.self)
        next = server->handle(e);
      else
        elsewhere.push_back(e);
      out.insert(out.end(), next.begin(), next.end());
    }
    return elsewhere;
  }
};

// Of a shard whose reads are not in its store, without what they change: counters, and how fresh reads were.
std::string state_of(const ShardImage& image) {
  ShardImage kept = image;
  kept.counters.clear();
  kept.refused = kept.duplicates_dropped = 0;
  for (auto& parcel : kept.parcels) parcel.reads.clear();
  return text_of(kept);
}

}  // namespace

// ---- output commit ------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(WithoutAReplicaEverythingLeavesAtOnce) {
  Pair pair;
  BOOST_TEST(only<MembershipAck>(pair.server->handle(pair.membership())).size() == 1u);
  BOOST_TEST(only<PushAck>(pair.server->handle(pair.world.push_of(0, 0, 0))).size() == 1u);
}

BOOST_AUTO_TEST_CASE(NothingLeavesBeforeTheReplicaHasWhatItFollowsFrom) {
  Pair pair;
  pair.settle(pair.join());
  const Outbox first = pair.server->handle(pair.world.push_of(0, 0, 0));
  BOOST_TEST(only<PushAck>(first).empty());
  const Outbox read = pair.server->handle(pair.world.from_worker(1, Pull{0, 0}));
  BOOST_TEST(read.empty());  // it would show the push
  const Outbox released = pair.settle(first);
  BOOST_REQUIRE(released.size() == 2u);
  BOOST_TEST(std::holds_alternative<PushAck>(released[0].body));
  BOOST_TEST(first_value(std::get<PullReply>(released[1].body)) == -1);
}

BOOST_AUTO_TEST_CASE(WhatFollowsFromLaterEventsGoesOnWaiting) {
  Pair pair;
  pair.settle(pair.join());
  const Outbox one = pair.server->handle(pair.world.push_of(0, 0, 0));
  const Outbox two = pair.server->handle(pair.world.push_of(0, 0, 1));
  BOOST_TEST(only<PushAck>(pair.settle(one)).size() == 1u);
  BOOST_TEST(pair.server->held() == 1u);
  BOOST_TEST(only<PushAck>(pair.settle(two)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(NothingIsSaidUntilANewReplicaHasTheImage) {
  Pair pair;
  pair.server->handle(pair.membership());
  pair.server->handle(pair.world.push_of(0, 0, 0));
  const Outbox image = pair.join();
  BOOST_REQUIRE(image.size() == 1u);
  BOOST_TEST(std::get<Replicate>(image[0].body).index == 0u);
  const Outbox push = pair.server->handle(pair.world.push_of(0, 0, 1));
  BOOST_TEST(only<PushAck>(push).empty());
  BOOST_TEST(only<MembershipAck>(pair.settle(image)).size() == 1u);
  BOOST_TEST(only<PushAck>(pair.settle(push)).size() == 1u);
  BOOST_TEST(pair.replica->events() == 1u);
}

BOOST_AUTO_TEST_CASE(WhenTheReplicaIsLostTheRunGoesOnWithoutOne) {
  Pair pair;
  pair.settle(pair.join());
  BOOST_TEST(only<PushAck>(pair.server->handle(pair.world.push_of(0, 0, 0))).empty());
  const Outbox out = pair.leave();
  BOOST_TEST(only<PushAck>(out).size() == 1u);
  BOOST_TEST(only<MembershipAck>(out).size() == 1u);
}

BOOST_AUTO_TEST_CASE(WhatWasNotAcknowledgedIsSaidAgainAndOnlyWithoutProgress) {
  Pair pair;
  pair.settle(pair.join());
  for (Step t : {0, 1, 2}) pair.server->handle(pair.world.push_of(0, 0, t));  // all lost
  pair.server->tick();
  const Outbox again = pair.server->tick();
  BOOST_REQUIRE(only<Replicate>(again).size() == 3u);
  BOOST_TEST(only<Replicate>(again)[0].index == 1u);
  BOOST_TEST(only<PushAck>(pair.settle(again)).size() == 3u);
  BOOST_TEST(pair.server->tick().empty());
}

BOOST_AUTO_TEST_CASE(BeyondTheWindowPushesAreLeftForTheWorkerToRepeat) {
  Pair pair;
  pair.store = make_replicated_store({0, 2 * ShardWorld::kCount * 4, 4 << 20});
  pair.start();
  pair.settle(pair.join());
  Outbox out;
  for (Step t : {0, 1, 2}) {
    const Outbox said = pair.server->handle(pair.world.push_of(0, 0, t));
    out.insert(out.end(), said.begin(), said.end());
  }
  const Envelope beyond = pair.world.push_of(0, 0, 3);
  BOOST_TEST(pair.server->handle(beyond).empty());
  BOOST_TEST(only<PushAck>(pair.settle(out)).size() == 3u);
  BOOST_TEST(only<PushAck>(pair.settle(pair.server->handle(beyond))).size() == 1u);
}

BOOST_AUTO_TEST_CASE(AnAcknowledgementOfAnotherReplicaCountsForNothing) {
  Pair pair;
  pair.settle(pair.join());
  pair.server->handle(pair.world.push_of(0, 0, 0));
  const Envelope ack{{Role::replica, 0, 9}, pair.world.options.self, pair.world.generation, ReplicateAck{1}};
  BOOST_TEST(pair.server->handle(ack).empty());
  BOOST_TEST(pair.server->held() == 1u);
}

BOOST_AUTO_TEST_CASE(WhatWaitsForAReplicaIsBoundedWhateverIsAsked) {
  Pair pair;
  pair.settle(pair.join());
  pair.server->handle(pair.world.push_of(0, 0, 0));  // the replica does not get it
  for (size_t i = 0; i < ServerCore::kMostHeld + 1000; ++i)
    pair.server->handle(pair.world.from_worker(1, Pull{0, 0, i}));
  BOOST_TEST(pair.server->held() == ServerCore::kMostHeld);
}

BOOST_AUTO_TEST_CASE(AReplicaKeepsNoMoreAheadThanItSays) {
  Pair pair;
  pair.settle(pair.join());
  Outbox events;
  for (Step t = 0; t < static_cast<Step>(ReplicaCore::kAhead) + 100; ++t) {
    const Outbox said = pair.server->handle(pair.world.push_of(0, 0, t));
    events.insert(events.end(), said.begin(), said.end());
  }
  for (size_t i = 1; i < events.size(); ++i) pair.replica->handle(events[i]);
  BOOST_TEST(pair.replica->events() == 0u);
  pair.replica->handle(events[0]);
  BOOST_TEST(pair.replica->events() == ReplicaCore::kAhead);
}

// ---- the twin -----------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(AReplicaOverABadNetworkIsEqualBitForBitToItsServer) {
  int64_t updates = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Pair pair({{Mode::sync}, {Mode::sync}, {Mode::ssp, 1}, {Mode::async}, {Mode::all_reduce}}, seed % 3 == 0 ? 4 : 0);
    pair.world.options.optimizer = optimizer_of("sgd", 0.1, 0.9);
    pair.world.options.scale = seed % 2 == 0 ? ImmediateScale::staleness : ImmediateScale::none;
    pair.world.options.needs_verdict = seed % 4 < 2;
    pair.start();
    pair.settle(pair.join());
    Random random(derive_seed(seed, "replication"));
    ShardTraffic traffic(pair.world, random);
    Outbox under_way;
    const auto put_under_way = [&](const Outbox& said) {
      for (const Envelope& e : said) {
        if (e.to.role != Role::replica && e.to.role != Role::server) {
          traffic.answered({{Role::worker, e.to.index, 0}, {}, 0, {}}, {e});
        } else if (!random.chance(0.1)) {
          under_way.push_back(e);
          if (random.chance(0.1)) under_way.push_back(e);
        }
      }
    };
    const auto deliver_one = [&] {  // of the oldest four
      const size_t at = random.below(std::min<size_t>(under_way.size(), 4));
      const Envelope e = under_way[at];
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(at));
      put_under_way(e.to.role == Role::replica ? pair.replica->handle(e) : pair.server->handle(e));
    };
    for (int i = 0; i < 400; ++i) {
      if (i % 10 == 9) put_under_way(pair.server->tick());
      Envelope e = traffic.next();
      if (auto* m = std::get_if<Membership>(&e.body)) m->replicas = {pair.incarnation};
      put_under_way(pair.server->handle(e));
      for (uint64_t n = random.below(4); n > 0 && !under_way.empty(); --n) deliver_one();
    }
    for (int i = 0; i < 20; ++i) pair.settle(pair.server->tick());
    const ShardImage mine = pair.server->shard().image();
    const Endpoint next{Role::server, 0, 2};
    const auto twin = pair.replica->take_over(next, make_null_store());
    BOOST_REQUIRE_MESSAGE(twin.has_value(), (twin ? "" : twin.error().message));
    BOOST_TEST(state_of((*twin)->image()) == state_of(mine), "seed " << seed);
    updates += mine.parcels[3].updates;
  }
  BOOST_TEST(updates > 600);
}

BOOST_AUTO_TEST_CASE(AReplicaTakesOverAndTheOldServerNeverSaysAnythingAgain) {
  Pair pair;
  pair.settle(pair.join());
  pair.settle(pair.server->handle(pair.world.push_of(0, 0, 0, 3)));
  const Outbox in_doubt = pair.server->handle(pair.world.push_of(0, 0, 1, 3));  // on its way to the replica

  ++pair.world.options.self.incarnation, ++pair.world.generation;
  auto store = make_replicated_store({});
  auto shard = pair.replica->take_over(pair.world.options.self, store);
  BOOST_REQUIRE(shard.has_value());
  ServerCore next(pair.world.options, std::move(*shard), store);
  BOOST_TEST(only<PushAck>(pair.settle(in_doubt)).empty());
  BOOST_TEST(only<PullReply>(pair.server->handle({pair.world.worker(1), {Role::server, 0, 1}, 2, Pull{0, 0}})).empty());

  Envelope m = pair.world.membership();
  BOOST_TEST(only<MembershipAck>(next.handle(m)).size() == 1u);
  BOOST_TEST(next.shard().state()[0].values.data<float>()[0] == -3);
  pair.world.sent[0] = 1;
  BOOST_TEST(only<PushAck>(next.handle(pair.world.push_of(0, 0, 1, 3))).size() == 1u);
  BOOST_TEST(next.shard().state()[0].values.data<float>()[0] == -6);
}

BOOST_AUTO_TEST_CASE(SyncedIsSaidUntilTheCoordinatorHasHeard) {
  Pair pair;
  BOOST_TEST(pair.server->handle(pair.membership()).size() == 1u);
  const Outbox out = pair.settle(pair.join());
  const auto synced = only<Synced>(out);
  BOOST_REQUIRE(synced.size() == 1u);
  BOOST_TEST((synced[0].server == pair.world.options.self));
  BOOST_TEST(only<Synced>(pair.replica->tick()).size() == 1u);
  pair.replica->handle({kCoordinator, {Role::replica, 0, 1}, 2, SyncedAck{synced[0].server}});
  BOOST_TEST(pair.replica->tick().empty());
}

BOOST_AUTO_TEST_CASE(ACoordinatorWhosePlaceAnotherHasTakenEndsNoReplica) {
  Pair pair;
  pair.join();
  const Endpoint self{Role::replica, 0, 1};
  BOOST_TEST(pair.replica->handle({kCoordinator, self, 5, Membership{}}).size() == 1u);
  BOOST_TEST(pair.replica->handle({kCoordinator, self, 4, Membership{}}).empty());
  pair.replica->handle({kCoordinator, self, 4, Finish{}});
  BOOST_TEST(!pair.replica->finished());
  pair.replica->handle({kCoordinator, self, 5, Finish{}});
  BOOST_TEST(pair.replica->finished());
  ReplicaCore younger(ReplicaOptions{self, pair.world.options, zeros(), 5});
  younger.handle({kCoordinator, self, 4, Finish{}});
  BOOST_TEST(!younger.finished());
}

BOOST_AUTO_TEST_CASE(AReplicaThatHoldsNothingCannotTakeOver) {
  Pair pair;
  pair.join();
  const auto shard = pair.replica->take_over({Role::server, 0, 2}, make_null_store());
  BOOST_REQUIRE(!shard.has_value());
  BOOST_TEST((shard.error().kind == ErrorKind::missing));
}

BOOST_AUTO_TEST_CASE(AnOlderServerIncarnationIsNotFollowed) {
  Pair pair;
  pair.world.options.self.incarnation = 3;
  pair.start();
  pair.server->handle(pair.world.membership(0));
  pair.settle(pair.join());
  const ShardImage image = pair.server->shard().image();
  const Envelope old{
      {Role::server, 0, 2}, {Role::replica, 0, 1}, 9, Replicate{0, nullptr, std::make_shared<ShardImage>(image)}};
  BOOST_TEST(pair.replica->handle(old).empty());
  BOOST_TEST(pair.replica->following()->incarnation == 3u);
}

BOOST_AUTO_TEST_CASE(AnEventThatCannotFollowIsAFaultAndNotAcknowledged) {
  Pair pair;
  pair.settle(pair.join());
  Envelope wrong = pair.world.push_of(0, 0, 0);
  std::get<Push>(wrong.body).parcel = 8;
  const Outbox out = pair.replica->handle(
      {pair.world.options.self, {Role::replica, 0, 1}, 2, Replicate{1, std::make_shared<Envelope>(wrong), nullptr}});
  BOOST_TEST(only<ReplicateAck>(out).empty());
  BOOST_TEST(only<Fault>(out).size() == 1u);
}

// ---- a log --------------------------------------------------------------------------------------------------------

namespace {

EnvelopeCodec codec() {
  return {[](const Envelope& e) { return wire::pack(e, 7); },
          [](std::span<const std::byte> bytes) {
            wire::DecodeLimits limits;
            limits.run = 7;
            return wire::unpack(bytes, limits);
          }};
}

struct Logged {
  std::shared_ptr<troupe::test::MemoryDisk> disk = std::make_shared<troupe::test::MemoryDisk>();
  explicit Logged(int64_t row_width = 0) : world({{Mode::sync}, {Mode::async}}, 2, row_width) {}
  ShardWorld world;
  std::unique_ptr<ServerCore> server;

  void start(uint64_t image_after_bytes = 1 << 20) {
    UpdateLogOptions options;
    options.folder = "run/server-0";
    options.image_after_bytes = image_after_bytes;
    auto store = make_logged_store(disk, options, codec());
    server = std::make_unique<ServerCore>(world.options, std::make_unique<Shard>(world.options, store, zeros()), store);
  }
  Outbox commit() { return server->begin_commit() ? server->committed(server->store().commit()) : Outbox{}; }
  void restart(uint64_t image_after_bytes = 1 << 20) {
    ++world.options.self.incarnation, ++world.generation;
    start(image_after_bytes);
    server->handle(world.membership());
    commit();
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(OneFlushReleasesAllThatCameBeforeIt) {
  Logged logged;
  logged.start();
  BOOST_TEST(logged.server->handle(logged.world.membership()).empty());
  BOOST_TEST(only<MembershipAck>(logged.commit()).size() == 1u);
  for (Step t : {0, 1, 2}) BOOST_TEST(logged.server->handle(logged.world.push_of(0, 1, t)).empty());
  BOOST_TEST(logged.server->begin_commit());
  BOOST_TEST(!logged.server->begin_commit());  // one at a time
  BOOST_TEST(logged.server->handle(logged.world.push_of(1, 1, 0)).empty());
  const Status flushed = logged.server->store().commit();
  BOOST_TEST(only<PushAck>(logged.server->committed(flushed)).size() == 4u);
}

BOOST_AUTO_TEST_CASE(AServerThatComesBackFromItsLogHoldsTheSameParameters) {
  for (const auto& [image_after, row_width] :
       {std::pair{uint64_t{4000}, 0}, std::pair{uint64_t{1} << 20, 0}, std::pair{uint64_t{1} << 20, 4}}) {
    Logged logged(row_width);
    logged.start(image_after);
    logged.server->handle(logged.world.membership());
    Random random(4);
    ShardTraffic traffic(logged.world, random);
    for (int i = 0; i < 300; ++i) {
      const Envelope e = traffic.next();
      const Outbox out = logged.server->handle(e);
      for (const Envelope& said : out) traffic.answered({{Role::worker, said.to.index, 0}, {}, 0, {}}, {said});
      for (const Envelope& said : logged.commit())
        traffic.answered({{Role::worker, said.to.index, 0}, {}, 0, {}}, {said});
    }
    const std::string before = text_of(logged.server->shard().state());
    logged.restart(image_after);
    BOOST_TEST(text_of(logged.server->shard().state()) == before);
    BOOST_TEST((logged.disk->list("run/server-0")->size() < 12) == (image_after == 4000));
  }
}

BOOST_AUTO_TEST_CASE(AServerWhoseLogWasTakenSaysNothing) {
  Logged logged;
  logged.start();
  logged.server->handle(logged.world.membership());
  logged.commit();
  const auto stopped = std::move(logged.server);
  const Envelope late = logged.world.push_of(0, 1, 0);
  logged.restart();
  stopped->handle(late);
  BOOST_TEST(stopped->begin_commit());
  BOOST_TEST(stopped->committed(stopped->store().commit()).empty());
  BOOST_TEST(stopped->fenced());
  BOOST_TEST(!logged.server->fenced());
}

BOOST_AUTO_TEST_CASE(ACommitThatFailsIsAFaultAndAcknowledgesNothing) {
  Logged logged;
  logged.start();
  logged.server->handle(logged.world.membership());
  logged.commit();
  logged.server->handle(logged.world.push_of(0, 1, 0));
  logged.disk->fail_at(1, troupe::test::MemoryDisk::Fault::input_output);
  const Outbox out = logged.commit();
  BOOST_TEST(only<Fault>(out).size() == 1u);
  BOOST_TEST(only<PushAck>(out).empty());
}

BOOST_AUTO_TEST_SUITE_END()
