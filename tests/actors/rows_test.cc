#include <boost/test/unit_test.hpp>

#include <tests/support/cluster_lab.h>
#include <tests/support/random_tokens.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(rows)

namespace {

constexpr int64_t kTokens = 101;

/// A transformer whose embedding is by rows, or not; each batch reads about a third of it.
Bench gpt(bool sparse, const std::string& optimizer = "sgd") {
  Bench bench;
  bench.optimizer = {.name = optimizer, .learning_rate = 0.1};
  bench.model = {.kind = "gpt", .input = {6}, .classes = kTokens, .layers = 1, .heads = 2, .width = 16, .context = 8,
                 .tied = false, .sparse_embedding = sparse};
  bench.own.train = std::make_shared<RandomTokens>(160, 6, kTokens);
  bench.own.test = std::make_shared<RandomTokens>(32, 6, kTokens);
  return bench;
}

ClusterParts parts_of(const Bench& bench, const ps::Policy& policy, Hooks hooks = {}) {
  ClusterParts parts = bench.parts({8, 5, 3}, {policy}, std::move(hooks));
  parts.coordinator.layout = {.servers = 2, .slice_bytes = 1024, .fuse_bytes = 256};
  parts.coordinator.dealer.epochs = 2;
  parts.coordinator.evaluate_every_epochs = 1;
  parts.coordinator.max_restarts = 1;
  return parts;
}

int64_t pushed_of(const Trial& trial, ps::LayerId layer) { return trial.result.layers.at(layer).pushed_bytes; }

}  // namespace

BOOST_AUTO_TEST_CASE(ARunByRowsIsEqualToADenseOneBitForBit) {
  for (const std::string optimizer : {"sgd", "adagrad"}) {
    const Trial dense = train(parts_of(gpt(false, optimizer), kSync));
    const Trial sparse = train(parts_of(gpt(true, optimizer), kSync));
    BOOST_TEST((sparse.result.outcome == ps::Outcome::completed), sparse.result.failure);
    BOOST_TEST((sparse.parameters() == dense.parameters()), optimizer);
    BOOST_TEST(sparse.accuracy() == dense.accuracy());
  }
}

BOOST_AUTO_TEST_CASE(OnlyTheRowsThatABatchNamesTravel) {
  const Trial dense = train(parts_of(gpt(false), kSync)), sparse = train(parts_of(gpt(true), kSync));
  BOOST_TEST(pushed_of(sparse, 0) < pushed_of(dense, 0) / 2);
  BOOST_TEST(pushed_of(sparse, 1) == pushed_of(dense, 1));
}

BOOST_AUTO_TEST_CASE(ARunByRowsWithClippingIsADenseOneToRounding) {
  const auto run = [](bool sparse) {
    ClusterParts parts = parts_of(gpt(sparse), kSync);
    parts.coordinator.clip_norm = 0.05;
    return train(std::move(parts));
  };
  const Trial dense = run(false), sparse = run(true);
  BOOST_TEST((sparse.result.outcome == ps::Outcome::completed), sparse.result.failure);
  BOOST_TEST(distance(sparse.parameters(), dense.parameters()) < 1e-5);
}

BOOST_AUTO_TEST_CASE(OneWorkerUnderEveryPolicyIsEqualToADenseOne) {
  for (const ps::Policy& policy : {kSync, kSsp, kAsync}) {
    const auto run = [&](bool sparse) {
      ClusterParts parts = gpt(sparse).parts({8}, {policy});
      parts.coordinator.dealer.epochs = 1;
      return train(std::move(parts));
    };
    BOOST_TEST((run(true).parameters() == run(false).parameters()), describe(policy));
  }
}

BOOST_AUTO_TEST_CASE(AnAsynchronousRunByRowsIsRepeatedBitForBit) {
  for (const ps::Policy& policy : {kSsp, kAsync}) {
    ClusterParts parts = parts_of(gpt(true), policy);
    auto recording = std::make_shared<ps::Recording>();
    recording->events.resize(parts.coordinator.layout.servers);
    parts.record_dealt = [recording](const ps::CoordinatorCore::Dealt& dealt) { recording->dealt.push_back(dealt); };
    parts.record_event = [recording](ps::ServerId server, const ps::Shard::Event& event) {
      recording->events[server].push_back(event);
    };
    const Trial first = train(std::move(parts));
    BOOST_TEST((first.result.outcome == ps::Outcome::completed), first.result.failure);
    ClusterParts again = parts_of(gpt(true), policy);
    again.replay = *recording;
    BOOST_TEST((train(std::move(again)).parameters() == first.parameters()), describe(policy));
  }
}

BOOST_AUTO_TEST_CASE(AWorkerThatDiesInARunByRowsChangesNothing) {
  const Trial whole = train(parts_of(gpt(true), kSync));
  for (const int dies_at : {2, 9}) {
    auto steps = std::make_shared<std::atomic<int>>(0);
    Hooks hooks;
    hooks.before_backward = [=](ps::WorkerId worker, const Batch&) {
      if (worker == 1 && ++*steps == dies_at) throw std::runtime_error("it died");
    };
    const Trial trial = train(parts_of(gpt(true), kSync, hooks));
    BOOST_TEST((trial.result.outcome == ps::Outcome::completed), trial.result.failure);
    BOOST_TEST(trial.result.worker_restarts == 1);
    BOOST_TEST((trial.parameters() == whole.parameters()));
  }
}

BOOST_AUTO_TEST_CASE(AnAllReducedLayerByRowsIsRefusedBeforeTheRunBegins) {
  const auto run = Run::start(parts_of(gpt(true), kAllReduce));
  BOOST_REQUIRE(!run.has_value());
  const std::string& why = run.error().message;
  BOOST_TEST(why.find("layer embedding is by rows and all_reduce") != std::string::npos, why);
}

BOOST_AUTO_TEST_SUITE_END()
