#include <boost/test/unit_test.hpp>
#include <condition_variable>

#include <tests/support/cluster_lab.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(slow_worker)

namespace {

/// Holds worker 0 in its first step until the others have begun `pieces` steps between them.
class Gate {
 public:
  explicit Gate(int pieces) : awaited_(pieces) {}

  void enter(ps::WorkerId worker) {
    std::unique_lock lock(mutex_);
    if (worker != 0) {
      ++begun_;
      changed_.notify_all();
      return;
    }
    if (passed_) return;
    // The limit only keeps a broken policy from hanging the test.
    came_ = changed_.wait_for(lock, std::chrono::seconds(20), [this] { return begun_ >= awaited_; });
    passed_ = true;
    begun_while_held_ = begun_;
  }

  bool came() const { return came_; }
  int begun_while_held() const { return begun_while_held_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int awaited_, begun_ = 0, begun_while_held_ = 0;
  bool passed_ = false, came_ = false;
};

Trial train_past(const std::shared_ptr<Gate>& gate, const ps::Policy& policy) {
  Hooks hooks;
  hooks.before_backward = [gate](ps::WorkerId worker, const Batch&) { gate->enter(worker); };
  return train(Bench{}.parts({16, 16, 16, 16}, {policy}, hooks));
}

}  // namespace

BOOST_AUTO_TEST_CASE(AsyncWorkersGoOnWithoutTheSlowOne) {
  const int own = 2;  // the piece it computes and the one that it asked for ahead
  const auto gate = std::make_shared<Gate>(2048 / 16 - own);
  const Trial trial = train_past(gate, kAsync);
  BOOST_TEST(gate->came());
  BOOST_TEST(trial.result.workers[0].pieces == own);
  BOOST_TEST(trial.result.samples == 2048);
}

BOOST_AUTO_TEST_CASE(SspWorkersGoOnByTheirBound) {
  const int most = 3 * static_cast<int>(kSsp.staleness + 1);  // steps 0, 1 and 2 of three workers
  const auto gate = std::make_shared<Gate>(most);
  const Trial trial = train_past(gate, kSsp);
  BOOST_TEST(gate->came());
  BOOST_TEST(gate->begun_while_held() == most);
  int64_t max_lag = 0;
  for (const ps::StepReport& step : trial.steps) max_lag = std::max(max_lag, step.max_lag);
  BOOST_TEST(max_lag == kSsp.staleness);
}

BOOST_AUTO_TEST_CASE(SyncWorkersWaitForTheSlowOne) {
  for (const ps::Policy& policy : {kSync, kAllReduce}) {
    const auto gate = std::make_shared<Gate>(3);  // their first steps
    const Trial trial = train_past(gate, policy);
    BOOST_TEST(gate->came());
    BOOST_TEST(gate->begun_while_held() == 3);
    for (const ps::WorkerReport& worker : trial.result.workers) BOOST_TEST(worker.pieces == 2048 / 64);
  }
}

BOOST_AUTO_TEST_SUITE_END()
