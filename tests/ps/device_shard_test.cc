#include <boost/test/unit_test.hpp>

#include <future>
#include <limits>

#include <troupe/ps/param/device_slice.h>
#include <troupe/ps/param/shard_device.h>

#include <tests/support/late_updates.h>
#include <tests/support/shard_text.h>
#include <tests/support/shard_traffic.h>

// Shards that live on a late device are the ones in host memory, bit for bit but for the order in which squares are
// added: the arithmetic is the same, and what is late shows whoever reads or writes too early.

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

/// Norms to seven digits: those of two places agree to twelve.
void round(Partial& partial) { partial.sum_of_squares = static_cast<float>(partial.sum_of_squares); }

std::string rounded_text_of(Outbox out) {
  for (Envelope& e : out)
    if (auto* partial = std::get_if<Partial>(&e.body)) round(*partial);
  return text_of(out);
}

std::string rounded_text_of(ShardImage image) {
  if (image.partial) round(*image.partial);
  return text_of(image);
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
    expected.push_back(rounded_text_of(out));
    said.push_back(other.handle(e));
    if (i % 16 != 15) continue;  // so that many updates are under way together
    BOOST_TEST_REQUIRE(device.wait().has_value());
    for (size_t k = 0; k < said.size(); ++k)
      BOOST_REQUIRE_MESSAGE(rounded_text_of(said[k]) == expected[k],
                            "seed " << seed << ", " << expected[k] << rounded_text_of(said[k]));
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
    BOOST_TEST(rounded_text_of(other.image()) == rounded_text_of(world.shard->image()), "seed " << seed);
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

namespace {

/// A layer with a statistic in its midst, synchronous, three workers, clipped.
ShardWorld clipped_world() {
  ShardWorld world({{Mode::sync}}, 3);
  LayerSpec norm{"norm",
                 20,
                 {{"norm.weight", {12}, 0},
                  {"norm.mean", {3}, 12, ParamKind::statistic},
                  {"norm.bias", {5}, 15, ParamKind::bias}}};
  world.layout = std::make_shared<Layout>(make_layout({norm}, {{Mode::sync}}, {}));
  world.options.optimizer = make_optimizer(optimizer(1)).value();
  world.options.needs_verdict = true;
  return world;
}

/// What is reported of a step whose gradients are drawn by `seed`; element `at` of worker `who`'s is `bad`.
Partial partial_of(ShardWorld& world, uint64_t seed, int64_t who = -1, int64_t at = 0, float bad = 0) {
  Random random(seed);
  std::vector<Partial> said;
  for (WorkerId w = 0; w < 3; ++w) {
    Envelope e = world.push_of(w, 0, 0, 0, 1 + w);
    Tensor& gradient = std::get<Push>(e.body).gradients.front();
    for (float& x : gradient.span<float>()) x = static_cast<float>(random.uniform() - 0.5);
    if (who == w) gradient.data<float>()[at] = bad;
    for (const Partial& one : only<Partial>(world.shard->handle(e))) said.push_back(one);
  }
  BOOST_TEST_REQUIRE(said.size() == 1u);
  return said.front();
}

size_t kernels(LateBackend& backend) {
  size_t count = 0;
  for (const auto* stream : backend.all_streams()) count += stream->counts.kernels;
  return count;
}

}  // namespace

// The late device adds squares as the CPU's op does, the shard in host memory as optimizers do: equal to 1e-12 of the
// sum.
BOOST_AUTO_TEST_CASE(NormsAreMeasuredOnTheDeviceAndAreThoseOfHostMemory) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    ShardWorld host = clipped_world(), other = clipped_world();
    host.run();
    const auto backend = late(seed);
    other.options = on(device(1, backend), other.options);
    other.run();
    const Partial expected = partial_of(host, seed), got = partial_of(other, seed);
    BOOST_TEST(got.sum_of_squares == expected.sum_of_squares, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(got.finite);
    // Two sums of three gradients, and the squares or a look for NaN of three ranges.
    BOOST_TEST(kernels(*backend) == 2u + 3u);
    host.verdict(0, false, 0.5), other.verdict(0, false, 0.5);
    BOOST_TEST((other.dump() == host.dump()), "seed " << seed);
    BOOST_TEST(kernels(*backend) == 2u + 3u + 3u);  // a step for each tensor: nothing is summed again
  }
}

BOOST_AUTO_TEST_CASE(TheSameWorkerIsBlamedForANanAndTheStepAfterASkippedOneIsItsOwn) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const int64_t at : {0, 13, 19}) {
    ShardWorld host = clipped_world(), other = clipped_world();
    host.run();
    other.options = on(device(1), other.options);
    other.run();
    const Partial expected = partial_of(host, 4, 2, at, inf), got = partial_of(other, 4, 2, at, inf);
    BOOST_TEST(!got.finite);
    BOOST_TEST(got.culprit == "layer norm, worker 2");
    BOOST_TEST(got.culprit == expected.culprit);
    for (ShardWorld* world : {&host, &other}) {
      world->verdict(0, true);
      for (WorkerId w = 0; w < 3; ++w) world->push(w, 0, 1, static_cast<float>(w + 1));
      world->verdict(1);
    }
    BOOST_TEST((other.dump() == host.dump()), at);
  }
}

BOOST_AUTO_TEST_CASE(ASumIsMadeAgainForAnotherSetOfGradients) {
  const auto where = device(1);
  DeviceSlice slice(where, "fc1", {{0, 4}});
  slice.install({0, ShardWorld::filled(4, 0), {ShardWorld::filled(4, 0)}, 0});
  const Tensor one = ShardWorld::filled(4, 1), two = ShardWorld::filled(4, 2);
  const Tensor numbers = slice.measure(std::vector{one});
  SliceUpdate step;
  const Tensor values = slice.apply(step, std::vector{one, two});
  BOOST_TEST_REQUIRE(where->wait().has_value());
  BOOST_TEST(slice.measured(numbers).sum_of_squares == 4);
  BOOST_TEST(values.data<float>()[0] == -0.3f, boost::test_tools::tolerance(1e-6f));
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
