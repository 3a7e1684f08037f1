#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include <troupe/kernels/base/random.h>

#include <tests/support/shard_world.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;

BOOST_AUTO_TEST_SUITE(shard_refusal)

namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

// Parcel 0 is sync, 1 ssp, 2 all-reduced, 3 another server's.
ShardWorld make_world() {
  ShardWorld world({{Mode::sync, 0}, {Mode::ssp, 1}, {Mode::all_reduce, 0}, {Mode::sync, 0}});
  Layout layout = *world.layout;
  layout.servers = 2;
  layout.slices[3].server = layout.parcels[3].server = 1;
  world.layout = std::make_shared<Layout>(layout);
  world.run();
  return world;
}

struct Mutation {
  const char* what;
  std::function<void(Push&)> apply;
};

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"unknown parcel", [](Push& p) { p.parcel = 99; }},
      {"last parcel number", [](Push& p) { p.parcel = ~ParcelId{0}; }},
      {"another server's parcel", [](Push& p) { p.parcel = 3; }},
      {"all-reduced parcel", [](Push& p) { p.parcel = 2; }},
      {"sequence 0", [](Push& p) { p.sequence = 0; }},
      {"negative step", [](Push& p) { p.step = -1; }},
      {"far step", [](Push& p) { p.step = 2'000'000; }},
      {"last step", [](Push& p) { p.step = kHuge; }},
      {"negative schedule step", [](Push& p) { p.schedule_step = -5; }},
      {"last schedule step", [](Push& p) { p.schedule_step = kHuge; }},
      {"negative samples", [](Push& p) { p.samples = -1; }},
      {"smallest samples", [](Push& p) { p.samples = std::numeric_limits<int64_t>::min(); }},
      {"overflowing samples", [](Push& p) { p.samples = kHuge; }},
      {"gradients over no samples", [](Push& p) { p.samples = 0; }},
      {"no gradients", [](Push& p) { p.gradients.clear(); }},
      {"a gradient too many", [](Push& p) { p.gradients.push_back(p.gradients[0]); }},
      {"an empty gradient", [](Push& p) { p.gradients[0] = {}; }},
      {"a short gradient", [](Push& p) { p.gradients[0] = Tensor::zeros(Shape{ShardWorld::kCount - 1}); }},
      {"a long gradient", [](Push& p) { p.gradients[0] = Tensor::zeros(Shape{ShardWorld::kCount + 1}); }},
      {"integers", [](Push& p) { p.gradients[0] = Tensor::zeros(Shape{ShardWorld::kCount}, DType::i32); }},
      {"doubles", [](Push& p) { p.gradients[0] = Tensor::zeros(Shape{ShardWorld::kCount}, DType::f64); }},
      {"odd address",
       [](Push& p) { p.gradients[0] = Tensor(allocate(100), 1, Shape{ShardWorld::kCount}, DType::f32); }},
      {"NaN scale", [](Push& p) { p.scale = NAN; }},
      {"infinite scale", [](Push& p) { p.scale = INFINITY; }},
      {"negative scale", [](Push& p) { p.scale = -1; }},
  };
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(EveryMalformedPushIsRefusedWithoutEffect) {
  for (ParcelId parcel : {0, 1})
    for (const Mutation& m : mutations()) {
      ShardWorld world = make_world();
      Envelope e = world.push_of(0, parcel, 0);
      m.apply(std::get<Push>(e.body));
      const auto before = world.dump();
      const Outbox out = world.shard->handle(e);
      BOOST_TEST_CONTEXT(m.what << " to parcel " << parcel) {
        BOOST_REQUIRE(out.size() == 1u);
        const Refused* refused = std::get_if<Refused>(&out[0].body);
        BOOST_REQUIRE(refused);
        BOOST_TEST((refused->reason == Refused::Reason::malformed));
        BOOST_TEST(!refused->detail.empty());
        BOOST_TEST((world.dump() == before));
        BOOST_TEST(only<PushAck>(world.push(0, parcel, 0)).size() == 1u);  // and the next honest one is taken
      }
    }
}

BOOST_AUTO_TEST_CASE(ASyncPushOfAnotherStepIsRefused) {
  ShardWorld world = make_world();
  BOOST_TEST(only<Refused>(world.push(0, 0, 1)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(AStageContributesToItsOwnLayersOnly) {
  ShardWorld world({{Mode::sync, 0}, {Mode::async, 0}});
  Layout layout = *world.layout;
  layout.stages = 2;
  layout.stage_of = {0, 1};
  world.layout = std::make_shared<Layout>(layout);
  world.run();
  for (ParcelId parcel : {0u, 1u})
    for (WorkerId worker : {0u, 1u}) {
      const Outbox out = world.push(worker, parcel, 0);
      BOOST_TEST(only<Refused>(out).size() == (worker == parcel ? 0u : 1u),
                 "worker " << worker << ", parcel " << parcel);
    }
  // The sync layer's step is complete with its one contributor, and the other stage may read it.
  BOOST_TEST(only<PullReply>(world.pull(1, 0, 1)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(StrangersAreRefused) {
  ShardWorld world = make_world();
  for (const Endpoint& stranger : {Endpoint{Role::worker, 2, 1}, Endpoint{Role::worker, ~0u, 1},
                                   Endpoint{Role::worker, 0, 0}, Endpoint{Role::worker, 0, 2}}) {
    Envelope e = world.push_of(0, 0, 0);
    e.from = stranger;
    const auto refused = only<Refused>(world.shard->handle(e));
    BOOST_REQUIRE(refused.size() == 1u);
    BOOST_TEST((refused[0].reason == Refused::Reason::stale_incarnation));
  }
}

BOOST_AUTO_TEST_CASE(AnEmptySlotHasNoWorker) {
  ShardWorld world = make_world();
  world.workers[1] = 0;
  ++world.generation;
  world.shard->handle({kCoordinator, world.options.self, world.generation,
                       Membership{world.generation, world.workers, {1, 1}, world.layout}});
  BOOST_TEST(only<Refused>(world.push(1, 1, 0)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(OnlyTheCoordinatorCommands) {
  ShardWorld world({{Mode::sync, 0}});
  world.options.needs_verdict = true;
  world.run();
  for (WorkerId w : {0, 1}) world.push(w, 0, 0);
  BOOST_TEST(world.shard->handle(world.from_worker(0, Verdict{0})).empty());
  BOOST_TEST(world.shard->handle(world.from_worker(0, Snapshot{1})).empty());
  Envelope m = world.membership();
  m.from = world.worker(0);
  m.generation = std::get<Membership>(m.body).generation = 9;
  BOOST_TEST(world.shard->handle(m).empty());
  BOOST_TEST(world.value(0) == 0);
}

BOOST_AUTO_TEST_CASE(MalformedPullsAreRefused) {
  ShardWorld world = make_world();
  for (const Pull& pull : {Pull{99, 0}, Pull{3, 0}, Pull{0, -1}, Pull{0, kHuge}, Pull{1, 2'000'000}})
    BOOST_TEST(only<Refused>(world.pull(0, pull.parcel, pull.step)).size() == 1u, pull.parcel << " " << pull.step);
}

BOOST_AUTO_TEST_CASE(MalformedInstallsAreRefusedWhole) {
  const auto good = [] { return Tensor::zeros(Shape{ShardWorld::kCount}); };
  for (const SliceState& bad :
       {SliceState{99, good(), {}, 0}, SliceState{3, good(), {}, 0}, SliceState{0, good(), {}, 0},
        SliceState{2, Tensor::zeros(Shape{3}), {}, 0}, SliceState{2, {}, {}, 0}, SliceState{2, good(), {good()}, 0},
        SliceState{2, good(), {}, -1}}) {
    ShardWorld world = make_world();
    const SliceState fine{2, ShardWorld::filled(ShardWorld::kCount, 5), {}, 0};
    BOOST_TEST(only<Refused>(world.shard->handle(world.from_worker(0, Install{1, {fine, bad}}))).size() == 1u);
    BOOST_TEST(world.value(2) == 0);
  }
}

BOOST_AUTO_TEST_CASE(SenselessLayoutsAreAFault) {
  const std::vector<std::function<void(Layout&)>> damages = {
      [](Layout& l) { l.policies.pop_back(); },      [](Layout& l) { l.slices[0].layer = 9; },
      [](Layout& l) { l.slices[0].end = kHuge; },    [](Layout& l) { l.slices[0].begin = -16; },
      [](Layout& l) { l.slices[0].server = 9; },     [](Layout& l) { l.parcels[0].slices = {7}; },
      [](Layout& l) { l.parcels[0].slices = {}; },   [](Layout& l) { l.parcels[0].slices = {1}; },
      [](Layout& l) { l.parcels.pop_back(); },       [](Layout& l) { l.parcels[0].policy = {Mode::async, 0}; },
      [](Layout& l) { l.layers[0].params.clear(); }, [](Layout& l) { l.layers[0].params[0].offset = 4; },
      [](Layout& l) { l.layers[0].params[0].shape = {kHuge, 3}; },
      [](Layout& l) { l.stages = 0; },               [](Layout& l) { l.stages = 2; },
      [](Layout& l) { l.stages = 2, l.stage_of = {0}; }, [](Layout& l) { l.stages = 2, l.stage_of = {0, 2}; },
  };
  for (size_t i = 0; i <= damages.size(); ++i) {
    ShardWorld world({{Mode::sync, 0}, {Mode::sync, 0}});
    world.start();
    Layout layout = *world.layout;
    if (i < damages.size()) damages[i](layout);
    world.layout = i < damages.size() ? std::make_shared<Layout>(layout) : nullptr;
    BOOST_TEST(only<Fault>(world.admit()).size() == 1u, "damage " << i);
  }
}

BOOST_AUTO_TEST_CASE(RandomDamageIsRefusedOrHarmless) {
  Random random(derive_seed(1, "damage"));
  ShardWorld world = make_world();
  Step next = 0;
  const auto number = [&]() -> int64_t {
    switch (random.below(4)) {
      case 0: return static_cast<int64_t>(random.below(8));
      case 1: return -static_cast<int64_t>(random.below(8));
      default: return static_cast<int64_t>(random.bits64());
    }
  };
  for (int i = 0; i < 20000; ++i) {
    world.sent[0] = static_cast<Sequence>(next);
    Envelope e = world.push_of(0, 1, next);
    auto& p = std::get<Push>(e.body);
    for (uint64_t changes = random.below(3); changes > 0; --changes) switch (random.below(9)) {
        case 0: p.sequence = static_cast<Sequence>(number()); break;
        case 1: p.parcel = static_cast<ParcelId>(number()); break;
        case 2: p.step = number(); break;
        case 3: p.schedule_step = number(); break;
        case 4: p.samples = number(); break;
        case 5: p.scale = std::bit_cast<double>(random.bits64()); break;
        case 6: p.gradients.resize(random.below(3)); break;
        case 7: e.from.index = static_cast<uint32_t>(number()); break;
        case 8: e.from.role = static_cast<Role>(random.below(4)); break;
      }
    const Outbox out = world.shard->handle(e);
    BOOST_REQUIRE(out.size() <= 1);
    if (out.empty()) BOOST_REQUIRE(e.from.role != Role::worker);
    // What was taken moved the clock by a step at most where the step was the right one.
    const bool taken = !only<PushAck>(out).empty() && e.from.index == 0 && p.parcel == 1 && p.step >= next;
    if (taken) {
      next = p.step + 1;
      if (p.sequence != world.sent[0] || p.step > 1'000'000) world = make_world(), next = 0;
    } else if (!only<PushAck>(out).empty()) {
      world = make_world(), next = 0;  // it was another worker's or parcel's honest push
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
