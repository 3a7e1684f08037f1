#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include <troupe/actors/cluster.h>

#include <tests/support/cluster_lab.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(lifetime)

namespace {

ptrdiff_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

/// The kernel lists a joined thread for a moment more.
bool threads_fall_to(ptrdiff_t count) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (threads() > count && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  return threads() <= count;
}

ClusterParts sync_parts(Hooks hooks = {}) { return Bench{}.parts({16, 16}, {kSync, kAllReduce, kSync, kSync}, hooks); }

}  // namespace

BOOST_AUTO_TEST_CASE(ClustersOneAfterTheOtherAreIndependent) {
  const std::vector<float> first = train(sync_parts()).parameters();
  for (int i = 0; i < 3; ++i) BOOST_TEST((train(sync_parts()).parameters() == first));
}

BOOST_AUTO_TEST_CASE(TwoClustersAtOnceAreIndependent) {
  const std::vector<float> alone = train(sync_parts()).parameters();
  const auto a = Lab::start(sync_parts()), b = Lab::start(sync_parts());
  BOOST_TEST((Lab::finish(b).parameters() == alone));
  BOOST_TEST((Lab::finish(a).parameters() == alone));
}

BOOST_AUTO_TEST_CASE(TwoClustersInOneActorSystemAreIndependent) {
  const double loss = train(sync_parts()).result.evaluation.stats.loss_sum;
  caf::actor_system_config config;
  caf::actor_system system(config);
  auto a = Cluster::start(system, sync_parts()).value(), b = Cluster::start(system, sync_parts()).value();
  BOOST_TEST(a->wait().evaluation.stats.loss_sum == loss);
  BOOST_TEST(b->wait().evaluation.stats.loss_sum == loss);
}

BOOST_AUTO_TEST_CASE(AFinishedRunLeavesNoThread) {
  train(sync_parts());  // whatever the libraries keep is there now
  const ptrdiff_t before = threads();
  train(sync_parts());
  BOOST_TEST(threads_fall_to(before));
}

BOOST_AUTO_TEST_CASE(ARunThatIsDestroyedEarlyLeavesNoThread) {
  train(sync_parts());
  const ptrdiff_t before = threads();
  for (const int pieces : {0, 1, 20}) {
    auto begun = std::make_shared<std::promise<void>>();
    auto count = std::make_shared<std::atomic<int>>(0);
    Hooks hooks;
    hooks.before_backward = [=](ps::WorkerId, const Batch&) {
      if (++*count == pieces) begun->set_value();
    };
    ClusterParts parts = sync_parts(hooks);
    parts.coordinator.dealer.epochs = 1000;
    auto run = Run::start(std::move(parts)).value();
    if (pieces > 0) begun->get_future().wait();
    run.reset();
    BOOST_TEST(threads_fall_to(before));
  }
}

BOOST_AUTO_TEST_CASE(AnotherThreadMayEndARun) {
  auto run = Run::start(sync_parts()).value();
  std::thread([&] { run.reset(); }).join();
  BOOST_TEST(!run);
}

BOOST_AUTO_TEST_CASE(AFailedRunLeavesNoThread) {
  train(sync_parts());
  const ptrdiff_t before = threads();
  Hooks hooks;
  hooks.before_backward = [](ps::WorkerId worker, const Batch&) {
    if (worker == 1) throw std::runtime_error("gone");
  };
  BOOST_TEST((train(sync_parts(hooks)).result.outcome == ps::Outcome::failed));
  BOOST_TEST(threads_fall_to(before));
}

BOOST_AUTO_TEST_CASE(ARunStoppedAtOnceSavesItsFirstParameters) {
  const auto lab = Lab::start(sync_parts());
  lab->run().stop();
  lab->run().stop();
  const Trial trial = Lab::finish(lab);
  BOOST_TEST((trial.result.outcome == ps::Outcome::interrupted));
  BOOST_TEST_REQUIRE(trial.checkpoints.size() == 1u);
  BOOST_TEST(trial.checkpoints[0].dealer.begin == trial.result.samples);
}

BOOST_AUTO_TEST_SUITE_END()
