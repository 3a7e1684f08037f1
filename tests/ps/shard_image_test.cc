#include <boost/test/unit_test.hpp>

#include <tests/support/shard_text.h>
#include <tests/support/shard_traffic.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;

BOOST_AUTO_TEST_SUITE(shard_image)

namespace {

std::unique_ptr<Shard> shard_from(const ShardImage& image, const ShardOptions& options,
                                  std::shared_ptr<ShardStore> store = make_null_store()) {
  auto shard = Shard::make_from(image, options, std::move(store), zeros());
  BOOST_REQUIRE_MESSAGE(shard.has_value(), (shard ? "" : shard.error().message));
  return std::move(*shard);
}

// A world of every policy, as the seed says, its layers by rows in some.
ShardWorld world_of(uint64_t seed) {
  ShardWorld world({{Mode::sync}, {Mode::sync}, {Mode::ssp, 1}, {Mode::async}, {Mode::all_reduce}}, 3,
                   seed % 5 > 2 ? 4 : 0);
  world.options.optimizer = optimizer_of(seed % 3 == 0 ? "adam" : "sgd", 0.1, seed % 3 == 1 ? 0.9 : 0);
  world.options.scale = seed % 2 == 0 ? ImmediateScale::staleness : ImmediateScale::samples;
  world.options.global_batch = 8;
  world.options.needs_verdict = seed % 4 < 2;
  return world;
}

}  // namespace

BOOST_AUTO_TEST_CASE(AShardMadeFromAnImageGoesOnBitForBitLikeTheOneItWasTakenOf) {
  int64_t updates = 0, refused = 0, waiting = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    ShardWorld world = world_of(seed);
    world.run();
    Random random(derive_seed(seed, "traffic"));
    ShardTraffic traffic(world, random);
    std::unique_ptr<Shard> twin;
    const uint64_t taken_at = random.below(250);
    for (uint64_t i = 0; i < 300; ++i) {
      if (i == taken_at) {
        const ShardImage image = world.shard->image();
        twin = shard_from(image, world.options);
        BOOST_TEST(only<MembershipAck>(twin->handle(world.membership())).size() == 1u);  // which it goes on under
        BOOST_TEST(text_of(twin->image()) == text_of(image));
        for (const Envelope& e : traffic.reads()) {
          BOOST_TEST(text_of(twin->handle(e)) == text_of(world.shard->handle(e)));
          ++waiting;
        }
        const Envelope snapshot = world.from_coordinator(Snapshot{1000});
        BOOST_TEST(text_of(twin->handle(snapshot)) == text_of(world.shard->handle(snapshot)));
      }
      const Envelope e = traffic.next();
      const Outbox out = world.shard->handle(e);
      traffic.answered(e, out);
      if (twin) {
        const std::string said = text_of(out), twin_said = text_of(twin->handle(e));
        BOOST_REQUIRE_MESSAGE(said == twin_said, "seed " << seed << ", " << i << ": " << said << "twin: " << twin_said);
        BOOST_TEST(text_of(twin->tick()) == text_of(world.shard->tick()));
      }
    }
    BOOST_TEST(text_of(twin->image()) == text_of(world.shard->image()), "seed " << seed);
    updates += world.shard->state()[2].updates + world.shard->state()[0].updates;
    refused += world.shard->image().refused;
  }
  BOOST_TEST(updates > 1500);  // the traffic is worth something
  BOOST_TEST(refused > 500);
  BOOST_TEST(waiting > 500);
}

BOOST_AUTO_TEST_CASE(AnotherIncarnationGoesOnWhenAMembershipNamesIt) {
  ShardWorld world = world_of(1);
  world.run();
  Random random(3);
  ShardTraffic traffic(world, random);
  for (int i = 0; i < 200; ++i) {
    const Envelope e = traffic.next();
    traffic.answered(e, world.shard->handle(e));
  }
  const ShardImage image = world.shard->image();
  world.options.self.incarnation = 2;
  world.shard = shard_from(image, world.options);
  BOOST_TEST(only<PushAck>(world.push(0, 3, 500)).empty());
  ++world.generation;
  BOOST_TEST(only<MembershipAck>(world.admit()).size() == 1u);
  BOOST_TEST(text_of(world.shard->image().slices) == text_of(image.slices));
  const auto before = world.dump();
  BOOST_TEST(only<PushAck>(world.push(0, 3, image.parcels[3].clock[0])).size() == 1u);
  BOOST_TEST((world.dump() != before));
}

// Bit for bit: the events alone, then an image and the events after it.
BOOST_AUTO_TEST_CASE(AStoreThatWasShrunkGivesTheSameShard) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    ShardWorld world = world_of(seed);
    world.store = make_memory_store(7);
    world.run();
    Random random(derive_seed(seed, "store"));
    ShardTraffic traffic(world, random);
    for (int i = 0; i < 200; ++i) {
      const Envelope e = traffic.next();
      traffic.answered(e, world.shard->handle(e));
    }
    const auto before = world.dump();
    ++world.options.self.incarnation, ++world.generation;
    world.start();
    const std::string said = text_of(world.admit());
    BOOST_TEST(said.find("MembershipAck") != std::string::npos, "seed " << seed << ": " << said);
    BOOST_TEST((world.dump() == before), "seed " << seed);
  }
}

BOOST_AUTO_TEST_CASE(AnImageComesBeforeWhatTheStoreHeld) {
  ShardWorld world({{Mode::async}});
  world.run();
  world.push(0, 0, 0, 2);
  const ShardImage image = world.shard->image();
  world.push(0, 0, 1, 2);  // in the store, and given up
  ++world.options.self.incarnation, ++world.generation;
  world.shard = shard_from(image, world.options, world.store);
  world.admit();
  BOOST_TEST(world.value(0) == -2);
  world.sent[0] = 1;
  world.push(0, 0, 1, 4);
  world.restart_server();  // from the store: the image and what followed
  BOOST_TEST(world.value(0) == -6);
}

BOOST_AUTO_TEST_CASE(WhatAnImageHoldsDoesNotChangeWhenItsShardGoesOn) {
  ShardWorld world({{Mode::async}});
  world.run();
  world.push(0, 0, 0, 2);
  const ShardImage image = world.shard->image();
  const std::string before = text_of(image);
  world.push(0, 0, 1, 2);
  BOOST_TEST(text_of(image) == before);
  BOOST_TEST(world.value(0) == -4);
}

BOOST_AUTO_TEST_CASE(ImagesThatCannotBeAreRefused) {
  ShardWorld world = world_of(1);
  world.run();
  for (WorkerId w : {0, 1}) world.push(w, 0, 0), world.push(w, 3, 0);
  const ShardImage good = world.shard->image();
  shard_from(good, world.options);
  const std::vector<std::pair<std::string, std::function<void(ShardImage&)>>> bad = {
      {"has no layout", [](ShardImage& i) { i.membership.layout.reset(); }},
      {"workers under a membership", [](ShardImage& i) { i.workers.pop_back(); }},
      {"sequences above", [](ShardImage& i) { i.workers[0].above = {1}; }},
      {"sequences above",
       [](ShardImage& i) {
         i.workers[0].above = {9, 8};
       }},
      {"parcels", [](ShardImage& i) { i.parcels.pop_back(); }},
      {"parcels", [](ShardImage& i) { i.parcels[1].id = 0; }},
      {"parcel 99", [](ShardImage& i) { i.parcels.back().id = 99; }},
      {"clocks", [](ShardImage& i) { i.parcels[0].clock.push_back(1); }},
      {"clock -1", [](ShardImage& i) { i.parcels[0].clock[0] = -1; }},
      {"version", [](ShardImage& i) { i.parcels[0].version = -4; }},
      {"reads", [](ShardImage& i) { i.parcels[0].reads.clear(); }},
      {"worker order", [](ShardImage& i) { i.parcels[0].pending[1].worker = 0; }},
      {"worker 7", [](ShardImage& i) { i.parcels[0].pending[1].worker = 7; }},
      {"tensors of gradient", [](ShardImage& i) { i.parcels[0].pending[0].gradients.clear(); }},
      {"gradient is", [](ShardImage& i) { i.parcels[0].pending[0].gradients[0] = Tensor::zeros(Shape{3}); }},
      {"under async", [](ShardImage& i) { i.parcels[3].pending = i.parcels[0].pending; }},
      {"previous", [](ShardImage& i) { i.parcels[0].previous = {Tensor::zeros(Shape{3})}; }},
      {"slices", [](ShardImage& i) { i.slices.pop_back(); }},
      {"slice 50", [](ShardImage& i) { i.slices.back().slice = 50; }},
      {"parameters", [](ShardImage& i) { i.slices[2].values = {}; }},
      {"state vectors", [](ShardImage& i) { i.slices[2].state.clear(); }},
      {"layer 12", [](ShardImage& i) { i.counters.push_back({12}); }},
  };
  for (const auto& [why, damage] : bad) {
    ShardImage image = good;
    damage(image);
    const auto shard = Shard::make_from(image, world.options, make_null_store(), zeros());
    BOOST_REQUIRE_MESSAGE(!shard.has_value(), why);
    BOOST_TEST(shard.error().message.find(why) != std::string::npos, why << ": " << shard.error().message);
  }
}

BOOST_AUTO_TEST_SUITE_END()
