#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>

#include <troupe/kernels/base/random.h>
#include <troupe/ps/param/rows.h>

#include <tests/support/shard_text.h>
#include <tests/support/shard_world.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;

BOOST_AUTO_TEST_SUITE(rows)

namespace {

constexpr int64_t kWidth = 4, kRows = ShardWorld::kCount / kWidth;
constexpr Policy kSync{Mode::sync, 0}, kAsync{Mode::async, 0}, kSsp{Mode::ssp, 1};

Tensor rows_of(const std::vector<int32_t>& rows) {
  return Tensor::from<int32_t>(rows, {static_cast<int64_t>(rows.size())});
}

std::vector<int32_t> some_rows(Random& random) {
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < kRows; ++row)
    if (random.chance(0.5)) rows.push_back(row);
  return rows;
}

Tensor random_values(Random& random, size_t rows) {
  Tensor values = Tensor::empty({static_cast<int64_t>(rows) * kWidth});
  for (float& x : values.span<float>()) x = static_cast<float>(random.normal());
  return values;
}

/// The same gradient with zeros for all other rows.
Tensor dense(const std::vector<int32_t>& rows, const Tensor& values) {
  Tensor whole = Tensor::zeros({ShardWorld::kCount});
  overlay_rows({rows, values.span<float>()}, std::vector<int32_t>{0, 1, 2, 3, 4}, whole.span<float>(), kWidth);
  return whole;
}

Push push_of(const std::vector<int32_t>& rows, Tensor values, Sequence sequence = 1, Step step = 0,
             int64_t samples = 1) {
  Push push{sequence, 0, step, step, samples, {std::move(values)}};
  push.rows = rows_of(rows);
  return push;
}

ShardWorld world_of(const Policy& policy, const std::string& optimizer = "sgd", int64_t width = kWidth) {
  ShardWorld world({policy}, 3, width);
  world.options.optimizer = optimizer_of(optimizer, 0.1);
  return world;
}

/// A world by rows and a dense one that are told the same.
struct Twins {
  Twins(const Policy& policy, const std::string& optimizer, bool verdicts = false)
      : sparse(world_of(policy, optimizer)), whole(world_of(policy, optimizer, 0)) {
    for (ShardWorld* world : {&sparse, &whole}) world->options.needs_verdict = verdicts, world->run();
  }
  std::pair<Outbox, Outbox> push(WorkerId worker, Step step, Random& random) {
    const std::vector<int32_t> rows = some_rows(random);
    const Tensor values = random_values(random, rows.size());
    const auto samples = 1 + static_cast<int64_t>(random.below(5));
    Push push = push_of(rows, values, ++sparse.sent[worker], step, samples);
    Push same = push;
    same.gradients = {dense(rows, values)};
    same.rows = {};
    return {sparse.shard->handle(sparse.from_worker(worker, push)),
            whole.shard->handle(whole.from_worker(worker, same))};
  }
  ShardWorld sparse, whole;
};

/// The values of a slice's rows.
std::vector<float> held(const ShardWorld& world, const std::vector<int32_t>& rows) {
  const Tensor values = gather_rows(world.shard->state().at(0).values, 0, rows, kWidth);
  return {values.span<float>().begin(), values.span<float>().end()};
}

std::string refusal(ShardWorld& world, Message body) {
  const auto refused = only<Refused>(world.shard->handle(world.from_worker(0, std::move(body))));
  return refused.empty() ? "" : refused.front().detail;
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

// ---- sums and copies ---------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ASumHasEveryRowThatSomeoneNamedAndAddsInTheOrderGiven) {
  const std::vector<int32_t> first{1, 4, 9}, second{0, 4}, third{4, 9, 11};
  // 1e8 + 1 - 1e8 is 0 in floats, 1e8 - 1e8 + 1 is 1.
  const std::vector<float> a{1, 1e8f, 3}, b{5, 1}, c{-1e8f, 7, 8};
  const std::vector<RowValues> parts{{first, a}, {second, b}, {third, c}}, other{{first, a}, {third, c}, {second, b}};
  const RowSum sum(parts, 1), in_other_order(other, 1);
  const std::vector<int32_t> all{0, 1, 4, 9, 11};
  BOOST_TEST(sum.get().rows == all, boost::test_tools::per_element());
  BOOST_TEST(sum.get().values == (std::vector<float>{5, 1, 0, 10, 8}), boost::test_tools::per_element());
  BOOST_TEST(in_other_order.get().values[2] == 1);
}

BOOST_AUTO_TEST_CASE(OnePartAloneIsNotCopied) {
  const std::vector<int32_t> rows{2, 3};
  const std::vector<float> values{1, 2};
  const std::vector<RowValues> parts{{rows, values}};
  BOOST_TEST(RowSum(parts, 1).get().values.data() == values.data());
}

BOOST_AUTO_TEST_CASE(ASumOfNothingHasNoRows) { BOOST_TEST(RowSum({}, 4).get().rows.empty()); }

// ---- equal to dense ----------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(SgdAndAdagradOfRowsAreEqualToDenseOnesBitForBit) {
  for (const char* optimizer : {"sgd", "adagrad"})
    for (const Policy& policy : {kSync, kAsync, kSsp}) {
      Twins twins(policy, optimizer);
      Random random(derive_seed(7, optimizer));
      for (Step step = 0; step < 40; ++step)
        for (WorkerId worker : {1, 0, 2}) {
          const auto [said, said_whole] = twins.push(worker, step, random);
          BOOST_TEST(text_of(said) == text_of(said_whole));
          BOOST_TEST(only<PushAck>(said).size() == 1u);
        }
      BOOST_TEST((twins.sparse.dump() == twins.whole.dump()), optimizer << ", " << describe(policy));
    }
}

BOOST_AUTO_TEST_CASE(TheNormOfRowsIsThatOfTheDenseGradient) {
  Twins twins(kSync, "sgd", true);
  Random random(3);
  for (Step step = 0; step < 10; ++step) {
    std::vector<Partial> mine, whole;
    for (WorkerId worker : {0, 1, 2}) {
      const auto [said, said_whole] = twins.push(worker, step, random);
      for (const Partial& p : only<Partial>(said)) mine.push_back(p);
      for (const Partial& p : only<Partial>(said_whole)) whole.push_back(p);
    }
    BOOST_REQUIRE(mine.size() == 1u && whole.size() == 1u);
    BOOST_TEST(mine[0].sum_of_squares == whole[0].sum_of_squares, boost::test_tools::tolerance(1e-12));
    for (ShardWorld* world : {&twins.sparse, &twins.whole}) world->verdict(step, step == 4, 0.5);
  }
  BOOST_TEST((twins.sparse.dump() == twins.whole.dump()));
}

BOOST_AUTO_TEST_CASE(ANanInRowsNamesTheWorkerThatSentIt) {
  ShardWorld world = world_of(kSync);
  world.options.needs_verdict = true;
  world.run();
  Random random(5);
  Outbox last;
  for (WorkerId worker : {0, 1, 2}) {
    Tensor values = random_values(random, 2);
    if (worker == 1) values.data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
    last = world.shard->handle(world.from_worker(worker, push_of({1, 3}, values)));
  }
  BOOST_REQUIRE(only<Partial>(last).size() == 1u);
  BOOST_TEST(!only<Partial>(last)[0].finite);
  BOOST_TEST(only<Partial>(last)[0].culprit == "layer fc1, worker 1");
}

// ---- lazy --------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(OptimizersThatMoveUntouchedRowsWantToBeToldSo) {
  for (const std::string name : {"adam", "adamw", "rmsprop", "sgd", "adagrad", "lamb"}) {
    OptimizerOptions options{.name = name};
    const bool exact = name == "sgd" || name == "adagrad";
    BOOST_TEST(make_optimizer(options).value()->check_rows().has_value() == exact, name);
    options.weight_decay = 0.1;
    BOOST_TEST(!make_optimizer(options).value()->check_rows().has_value(), name);
    options.lazy_rows = true;
    BOOST_TEST(make_optimizer(options).value()->check_rows().has_value() == (name != "lamb"), name);
  }
  BOOST_TEST(!make_optimizer({.name = "sgd", .momentum = 0.9}).value()->check_rows().has_value());
}

BOOST_AUTO_TEST_CASE(AServerWhoseOptimizerCannotUpdateRowsSaysSo) {
  ShardWorld world = world_of(kSync);
  world.options.optimizer = make_optimizer({.name = "adam"}).value();
  world.start();
  const auto faults = only<Fault>(world.admit());
  BOOST_REQUIRE(faults.size() == 1u);
  BOOST_TEST(says(faults[0].what, "set optimizer.lazy_rows = true"), faults[0].what);
}

BOOST_AUTO_TEST_CASE(LazyRowsThatAreTouchedInEveryStepAreEqualToDenseOnesAndOthersStay) {
  for (const char* optimizer : {"adam", "rmsprop"}) {
    ShardWorld sparse = world_of(kAsync, optimizer), whole = world_of(kAsync, optimizer, 0);
    for (ShardWorld* world : {&sparse, &whole}) world->run();
    Random random(11);
    for (Step step = 0; step < 20; ++step) {
      const Tensor values = random_values(random, 2);
      const auto sequence = static_cast<Sequence>(step) + 1;
      sparse.shard->handle(sparse.from_worker(0, push_of({1, 3}, values, sequence, step)));
      Push all = push_of({}, dense({1, 3}, values), sequence, step);
      all.rows = {};
      whole.shard->handle(whole.from_worker(0, all));
    }
    BOOST_TEST((held(sparse, {1, 3}) == held(whole, {1, 3})), optimizer);
    BOOST_TEST((held(sparse, {0, 2, 4}) == std::vector<float>(3 * kWidth, 0)), optimizer);
  }
}

// ---- pulls -------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(APullGivesTheRowsThatItNamesAndWithoutNamesAll) {
  ShardWorld world = world_of(kAsync);
  world.run();
  Random random(13);
  world.shard->handle(world.from_worker(0, push_of({0, 2, 3}, random_values(random, 3))));
  for (const std::vector<int32_t>& rows : {std::vector<int32_t>{2}, {0, 3, 4}, {}}) {
    const auto replies = only<PullReply>(world.shard->handle(world.from_worker(1, Pull{0, 0, 1, rows_of(rows)})));
    BOOST_REQUIRE(replies.size() == 1u);
    const auto values = replies[0].values.at(0).span<float>();
    BOOST_TEST((std::vector<float>(values.begin(), values.end()) == held(world, rows)));
  }
  const auto whole = only<PullReply>(world.pull(1, 0, 0));
  BOOST_TEST(whole.at(0).values.at(0).buffer() == world.shard->state().at(0).values.buffer());  // the published version
}

// A worker that was started again repeats its step.
BOOST_AUTO_TEST_CASE(TheVersionBeforeIsKnownAlthoughNoTableIsCopied) {
  ShardWorld world = world_of(kSync);
  world.run();
  Random random(17);
  std::vector<float> before;
  for (Step step = 0; step < 3; ++step) {
    before = held(world, {0, 1, 2, 3, 4});
    for (WorkerId worker : {0, 1, 2}) {
      const Tensor values = random_values(random, 2);
      const Push push = push_of({1, static_cast<int32_t>(2 + worker)}, values, ++world.sent[worker], step);
      world.shard->handle(world.from_worker(worker, push));
    }
  }
  BOOST_TEST((held(world, {0, 1, 2, 3, 4}) != before));
  const auto read = [&](Tensor rows) {
    const auto replies = only<PullReply>(world.shard->handle(world.from_worker(1, Pull{0, 2, 1, std::move(rows)})));
    BOOST_REQUIRE(replies.size() == 1u);
    const auto values = replies[0].values.at(0).span<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  BOOST_TEST((read({}) == before));
  std::vector<float> first_and_last(before.begin() + 4, before.begin() + 8);
  first_and_last.insert(first_and_last.end(), before.begin() + 16, before.end());
  BOOST_TEST((read(rows_of({1, 4})) == first_and_last));
}

BOOST_AUTO_TEST_CASE(AnUpdateOfRowsWritesWhereTheyAre) {
  for (const Policy& policy : {kSync, kAsync}) {
    ShardWorld world({policy}, 1, kWidth);
    world.run();
    Random random(19);
    const void* place = world.shard->state().at(0).values.raw();
    for (Step step = 0; step < 3; ++step) {
      const auto sequence = static_cast<Sequence>(step) + 1;
      world.shard->handle(world.from_worker(0, push_of({1}, random_values(random, 1), sequence, step)));
      world.shard->handle(world.from_worker(0, Pull{0, step + 1, sequence, rows_of({1, 2})}));
    }
    BOOST_TEST(world.shard->state().at(0).values.raw() == place);
  }
}

// What somebody holds is not written: a checkpoint, a test's weights.
BOOST_AUTO_TEST_CASE(WhatWasPublishedStaysAsItWas) {
  ShardWorld world = world_of(kAsync);
  world.run();
  Random random(23);
  const Tensor published = only<PullReply>(world.pull(1, 0, 0)).at(0).values.at(0);
  world.shard->handle(world.from_worker(0, push_of({0, 1}, random_values(random, 2))));
  BOOST_TEST((std::as_const(published).span<float>()[0] == 0));
  BOOST_TEST(held(world, {0})[0] != 0);
}

// ---- what cannot be ------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(RowsThatCannotBeAreRefusedAndChangeNothing) {
  ShardWorld world = world_of(kAsync);
  world.run();
  const auto before = world.dump();
  const Tensor two = ShardWorld::filled(2 * kWidth, 1);
  for (const std::vector<int32_t>& rows : {std::vector<int32_t>{3, 1}, {2, 2}, {4, 5}, {-1, 0},
                                           {0, std::numeric_limits<int32_t>::max()},
                                           {std::numeric_limits<int32_t>::min(), 0}}) {
    BOOST_TEST(says(refusal(world, push_of(rows, two)), "they must ascend"));
    BOOST_TEST(says(refusal(world, Pull{0, 0, 1, rows_of(rows)}), "they must ascend"));
  }
  Push push = push_of({0, 1}, ShardWorld::filled(2 * kWidth - 1, 1));
  BOOST_TEST(says(refusal(world, push), "expected 8 F32"));
  push.gradients = {two, two};
  BOOST_TEST(says(refusal(world, push), "2 gradients of rows"));
  push.gradients = {};
  BOOST_TEST(says(refusal(world, push), "0 gradients of rows"));
  push = push_of({0, 1}, two);
  push.rows = Tensor::zeros({2});
  BOOST_TEST(says(refusal(world, push), "expected I32"));
  push.rows = {};
  BOOST_TEST(says(refusal(world, push), "names none"));
  push.rows = rows_of({0, 1});
  push.samples = 0;
  BOOST_TEST(says(refusal(world, push), "over 0 samples"));
  BOOST_TEST((world.dump() == before));
  BOOST_TEST(only<PushAck>(world.shard->handle(world.from_worker(0, push_of({0, 1}, two)))).size() == 1u);
}

BOOST_AUTO_TEST_CASE(RowsOfADenseLayerAreRefused) {
  ShardWorld world = world_of(kAsync, "sgd", 0);
  world.run();
  BOOST_TEST(says(refusal(world, push_of({0}, ShardWorld::filled(ShardWorld::kCount, 1))), "takes none"));
  BOOST_TEST(says(refusal(world, Pull{0, 0, 1, rows_of({0})}), "which has none"));
}

BOOST_AUTO_TEST_CASE(APushOfNoRowsIsAStepLikeAnyOther) {
  ShardWorld world({kSync}, 2, kWidth);
  world.run();
  const auto taken = [&](WorkerId worker, const Push& push) {
    return only<PushAck>(world.shard->handle(world.from_worker(worker, push))).size() == 1;
  };
  BOOST_TEST(taken(0, push_of({}, Tensor::empty({0}))));
  BOOST_TEST(taken(1, push_of({2}, ShardWorld::filled(kWidth, 4))));
  BOOST_TEST((held(world, {2}) == std::vector<float>(kWidth, -2)));  // the mean of two samples
}

BOOST_AUTO_TEST_CASE(AnImageWhoseRowsCannotBeIsRefused) {
  ShardWorld world = world_of(kSync);
  world.run();
  world.shard->handle(world.from_worker(1, push_of({1, 2}, ShardWorld::filled(2 * kWidth, 1))));
  const ShardImage good = world.shard->image();
  const auto made = [&](Tensor rows) {
    ShardImage image = good;
    image.parcels[0].pending[0].rows = std::move(rows);
    const auto first = [](const Slice&) { return SliceState{}; };
    const auto shard = Shard::make_from(image, world.options, make_null_store(), first);
    return shard ? "" : shard.error().message;
  };
  BOOST_TEST(made(rows_of({1, 2})) == "");
  BOOST_TEST(says(made(rows_of({2, 1})), "they must ascend"));
  BOOST_TEST(says(made(rows_of({1})), "expected 4 F32"));
  BOOST_TEST(says(made({}), "names none"));
}

BOOST_AUTO_TEST_CASE(LayersByRowsThatCannotBeAreTold) {
  const LayerSpec table{"table", 24, {{"table.weight", {8, 3}, 0}}, 3};
  BOOST_TEST(check_by_rows({table}, {kAsync}, 1).has_value());
  BOOST_TEST(says(check_by_rows({table}, {{Mode::all_reduce}}, 1).error().message, "by rows and all_reduce"));
  BOOST_TEST(says(check_by_rows({table}, {kSync}, 2).error().message, "cut into 2 stages"));
  LayerSpec torn = table;
  torn.row_width = 5;
  BOOST_TEST(says(check_by_rows({torn}, {kSync}, 1).error().message, "no table of rows of 5"));
  torn = table;
  torn.params.push_back({"table.bias", {0}, 24});
  BOOST_TEST(!check_by_rows({torn}, {kSync}, 1).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
