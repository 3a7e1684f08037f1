#include <boost/test/unit_test.hpp>

#include <future>

#include <troupe/ps/param/shard_device.h>

#include <tests/support/late_updates.h>
#include <tests/support/shard_text.h>
#include <tests/support/shard_traffic.h>

// Shards that live on a late device are the ones in host memory, bit for bit: the arithmetic is the same, and what is
// late shows whoever reads or writes too early.

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;
using troupe::test::LateBackend;

BOOST_AUTO_TEST_SUITE(device_shard)

namespace {

std::shared_ptr<LateBackend> late(uint64_t seed) {
  auto backend = std::make_shared<LateBackend>(seed);
  backend->updates = &troupe::test::late_update_ops();
  return backend;
}

OptimizerOptions optimizer(uint64_t seed) {
  OptimizerOptions options;
  options.name = seed % 3 == 0 ? "adam" : "sgd";
  options.learning_rate = 0.1;
  options.momentum = seed % 3 == 1 ? 0.9 : 0;
  options.weight_decay = 0.01;
  return options;
}

std::shared_ptr<ShardDevice> device(uint64_t seed, std::shared_ptr<LateBackend> backend = nullptr) {
  return ShardDevice::make("server 0", backend ? backend : late(seed), 0, optimizer(seed)).value();
}

ShardWorld world_of(uint64_t seed) {
  ShardWorld world({{Mode::sync}, {Mode::sync}, {Mode::ssp, 1}, {Mode::async}, {Mode::all_reduce}}, 3);
  world.options.optimizer = make_optimizer(optimizer(seed)).value();
  world.options.scale = seed % 2 == 0 ? ImmediateScale::staleness : ImmediateScale::samples;
  world.options.global_batch = 8;
  world.options.needs_verdict = seed % 4 < 2;
  return world;
}

ShardOptions on(std::shared_ptr<ShardDevice> device, ShardOptions options) {
  options.device = std::move(device);
  return options;
}

/// Feeds `other` what the world's shard gets; what they say must be equal once `device` has come that far.
void feed(ShardWorld& world, uint64_t seed, Shard& other, ShardDevice& device, int events) {
  Random random(derive_seed(seed, "traffic"));
  ShardTraffic traffic(world, random);
  std::vector<std::string> expected;
  std::vector<Outbox> said;
  for (int i = 0; i < events; ++i) {
    const Envelope e = traffic.next();
    const Outbox out = world.shard->handle(e);
    traffic.answered(e, out);
    expected.push_back(text_of(out));
    said.push_back(other.handle(e));
    if (i % 16 != 15) continue;  // so that many updates are under way together
    BOOST_TEST_REQUIRE(device.wait().has_value());
    for (size_t k = 0; k < said.size(); ++k)
      BOOST_REQUIRE_MESSAGE(text_of(said[k]) == expected[k],
                            "seed " << seed << ", " << expected[k] << text_of(said[k]));
    said.clear(), expected.clear();
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(AShardOnADeviceSaysAndHoldsWhatTheOneInHostMemoryDoes) {
  int64_t updates = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    ShardWorld world = world_of(seed);
    world.run();
    const auto where = device(seed);
    Shard other(on(where, world.options), make_null_store(), zeros());
    other.handle(world.membership());
    feed(world, seed, other, *where, 160);
    BOOST_TEST(text_of(other.image()) == text_of(world.shard->image()), "seed " << seed);
    BOOST_TEST(text_of(other.state()) == text_of(world.shard->state()), "seed " << seed);
    updates += world.shard->state()[2].updates + world.shard->state()[0].updates;
  }
  BOOST_TEST(updates > 100);  // the traffic is worth something
}

// As after a move, a take-over by a replica, or a restart from a log that was shrunk: from host memory to the device,
// from there to another one, and back.
BOOST_AUTO_TEST_CASE(ItGoesOnFromAnImageOfTheOtherKind) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    ShardWorld world = world_of(seed);
    world.run();
    Random random(derive_seed(seed, "before"));
    ShardTraffic traffic(world, random);
    for (int i = 0; i < 60; ++i) {
      const Envelope e = traffic.next();
      traffic.answered(e, world.shard->handle(e));
    }
    const auto first = device(seed), second = device(seed + 100);
    const std::string expected = text_of(world.shard->image());
    const auto made =
        Shard::make_from(world.shard->image(), on(first, world.options), make_null_store(), zeros()).value();
    BOOST_TEST(text_of(made->image()) == expected);
    const auto moved = Shard::make_from(made->image(), on(second, world.options), make_null_store(), zeros()).value();
    BOOST_TEST(text_of(moved->image()) == expected);
    const auto back = Shard::make_from(moved->image(), world.options, make_null_store(), zeros()).value();
    BOOST_TEST(text_of(back->image()) == expected);
  }
}

// The store replays every event, or an image and the events after it.
BOOST_AUTO_TEST_CASE(AStoreGivesTheSameShardBackOnADevice) {
  for (const size_t events_between_images : {0u, 7u})
    for (uint64_t seed = 0; seed < 4; ++seed) {
      ShardWorld world = world_of(seed);
      world.store = make_memory_store(events_between_images);
      world.options = on(device(seed), world.options);
      world.run();
      Random random(derive_seed(seed, "store"));
      ShardTraffic traffic(world, random);
      for (int i = 0; i < 120; ++i) {
        const Envelope e = traffic.next();
        traffic.answered(e, world.shard->handle(e));
      }
      const auto before = world.dump();
      world.restart_server();
      BOOST_TEST((world.dump() == before), "seed " << seed);
    }
}

BOOST_AUTO_TEST_CASE(HandlingAPushDoesNotWaitForTheDevice) {
  const auto backend = late(1);
  ShardWorld world({{Mode::async}});
  world.options = on(device(1, backend), world.options);
  world.options.optimizer = make_optimizer(optimizer(1)).value();
  world.run();
  std::promise<void> go_on;
  const std::shared_future<void> gate = go_on.get_future().share();
  for (auto* stream : backend->all_streams()) stream->submit([gate] { gate.wait(); });
  // Were there a wait in these calls, it would be for the gate that is opened behind them.
  BOOST_TEST(only<PushAck>(world.push(0, 0, 0)).size() == 1u);
  BOOST_TEST(only<PullReply>(world.pull(1, 0, 0)).size() == 1u);
  BOOST_TEST(world.options.device->fetches() == 1u);
  go_on.set_value();
  BOOST_TEST(world.value(0) < 0);
}

BOOST_AUTO_TEST_CASE(MissingMemoryIsToldWithShardLayerAndBytes) {
  const auto backend = late(2);
  ShardWorld world({{Mode::async}});
  world.options = on(device(1, backend), world.options);
  world.options.optimizer = make_optimizer(optimizer(1)).value();
  world.run();
  backend->memory->limit = 1;
  BOOST_CHECK_EXCEPTION(world.push(0, 0, 0), std::runtime_error, [](const std::runtime_error& e) {
    return std::string(e.what()).find("server 0: no memory for 80 bytes of a gradient of layer fc1: ") == 0;
  });
}

BOOST_AUTO_TEST_CASE(ADeviceThatFailsIsToldWithTheShard) {
  const auto backend = late(3);
  ShardWorld world({{Mode::async}});
  world.options = on(device(1, backend), world.options);
  world.options.optimizer = make_optimizer(optimizer(1)).value();
  world.run();
  for (auto* stream : backend->all_streams()) stream->break_down("an illegal address in sgd");
  BOOST_CHECK_EXCEPTION(world.shard->image(), std::runtime_error, [](const std::runtime_error& e) {
    return std::string(e.what()).find("server 0: an illegal address in sgd") == 0;
  });
}

BOOST_AUTO_TEST_CASE(ABackendWithoutOptimizerStepsIsRefused) {
  const auto made = ShardDevice::make("server 3", load_backend(DeviceKind::cpu).value(), 0, {});
  BOOST_TEST_REQUIRE(!made.has_value());
  BOOST_TEST(made.error().message.find("server 3 cannot live on this device") == 0);
}

BOOST_AUTO_TEST_SUITE_END()
