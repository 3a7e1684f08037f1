#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <barrier>
#include <cmath>
#include <limits>
#include <mutex>
#include <thread>

#include <tests/support/device_lab.h>
#include <tests/support/gpu.h>

// Whole runs on late devices: what a GPU's workers do, but for the kernels. A group there adds in rank order, and the
// arithmetic is the CPU's, so that every run equals the one of the CPU bit for bit.

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(device_run)

namespace {

using Change = std::function<void(ClusterParts&)>;

ClusterParts on_cpu(const Bench& bench, std::vector<ps::Policy> policies, const Change& change, Hooks hooks = {}) {
  ClusterParts parts = bench.parts({20, 12}, std::move(policies), std::move(hooks));
  parts.coordinator.dealer.max_steps = 20;
  parts.bucket_bytes = 3000;  // several buckets, some of several layers
  if (change) change(parts);
  return parts;
}

/// Both runs' last parameters are equal; each has its own `hooks`.
void check_equal(std::vector<ps::Policy> policies, const Change& change = {},
                 const std::function<Hooks()>& hooks = [] { return Hooks{}; }, const Bench& bench = {}) {
  const Trial expected = train(on_cpu(bench, policies, change, hooks()));
  BOOST_TEST_REQUIRE((expected.result.outcome == ps::Outcome::completed), expected.result.failure);
  for (const uint64_t seed : {1, 2}) {
    const auto backend = late_backend(seed);
    const Trial got = train(on_devices(bench, on_cpu(bench, policies, change), backend, hooks()));
    BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
    BOOST_TEST((got.parameters() == expected.parameters()), "seed " << seed);
    BOOST_TEST(got.result.evaluation.stats.loss_sum == expected.result.evaluation.stats.loss_sum);
  }
}

Hooks nan_in_step(ps::WorkerId which, int64_t step, size_t layer) {
  Hooks hooks;
  const auto steps = std::make_shared<std::vector<int64_t>>(2, 0);
  hooks.before_backward = [steps](ps::WorkerId worker, const Batch&) { ++(*steps)[worker]; };
  hooks.on_gradient = [=](ps::WorkerId worker, size_t of, Tensor& gradient) {
    if (worker != which || of != layer || (*steps)[worker] != step) return;
    gradient = gradient.device().kind == DeviceKind::cpu ? gradient.clone() : gradient;
    gradient.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  };
  return hooks;
}

}  // namespace

BOOST_AUTO_TEST_CASE(AllReduceOnDevicesEqualsTheGroupOfTheCpu) { check_equal({kAllReduce}); }

BOOST_AUTO_TEST_CASE(SoDoesItWithStateAndWeightDecay) {
  Bench bench;
  bench.optimizer = {.name = "adamw", .learning_rate = 0.01, .weight_decay = 0.1};
  check_equal({kAllReduce}, {}, [] { return Hooks{}; }, bench);
}

BOOST_AUTO_TEST_CASE(SoDoesItBesideLayersOfServers) { check_equal({kAllReduce, kSync, kAllReduce, kSync}); }

BOOST_AUTO_TEST_CASE(SoDoesItWithClippedGradients) {
  check_equal({kAllReduce, kSync, kAllReduce, kAllReduce},
              [](ClusterParts& parts) { parts.coordinator.clip_norm = 0.3; });
}

BOOST_AUTO_TEST_CASE(CheckpointsOnTheWayHoldTheSame) {
  check_equal({kAllReduce}, [](ClusterParts& parts) { parts.coordinator.checkpoint_every_steps = 7; });
}

BOOST_AUTO_TEST_CASE(ALayerLeavesTheDevicesWhenItsPolicyChangesAndComesBack) {
  check_equal({kAllReduce}, [](ClusterParts& parts) {
    parts.coordinator.changes = {{6, {{"fc2", kSync}, {"*", kAllReduce}}}, {12, {{"*", kAllReduce}}}};
  });
}

BOOST_AUTO_TEST_CASE(AStepThatIsNotFiniteIsSkippedByAll) {
  for (const size_t layer : {0u, 2u})
    check_equal({kAllReduce, kSync, kAllReduce, kAllReduce},
                [](ClusterParts& parts) { parts.coordinator.skip_non_finite = true; },
                [layer] { return nan_in_step(1, 5, layer); });
}

BOOST_AUTO_TEST_CASE(AGradientThatIsNotFiniteEndsTheRunWithItsLayerAndWorker) {
  const Bench bench;
  const Trial trial =
      train(on_devices(bench, on_cpu(bench, {kAllReduce}, {}), late_backend(3), nan_in_step(1, 4, 2)));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  BOOST_TEST(trial.result.failure.find("the gradient of layer fc3 on worker 1 in step 3 holds NaN or Inf") !=
             std::string::npos);
}

// From the second step on: the first one's weights come from the servers.
BOOST_AUTO_TEST_CASE(GradientsOfAllReduceLayersStayOnTheDevice) {
  const Bench bench;
  std::mutex mutex;
  std::map<size_t, std::pair<int, int>> gradients;  // by layer: in host memory, on the device
  Hooks hooks;
  hooks.on_gradient = [&](ps::WorkerId, size_t layer, const Tensor& gradient) {
    std::lock_guard lock(mutex);
    auto& [host, device] = gradients[layer];
    ++(gradient.device().kind == DeviceKind::cpu ? host : device);
  };
  const Trial trial = train(
      on_devices(bench, on_cpu(bench, {kAllReduce, kSync, kAllReduce, kAllReduce}, {}), late_backend(4), hooks));
  BOOST_TEST_REQUIRE((trial.result.outcome == ps::Outcome::completed), trial.result.failure);
  for (const size_t layer : {0u, 2u, 3u}) BOOST_TEST((gradients[layer] == std::pair(2, 38)));
  BOOST_TEST((gradients[1] == std::pair(40, 0)));
}

// The backward pass does not give its last gradient before the first bucket is reduced and applied.
BOOST_AUTO_TEST_CASE(ABucketIsReducedWhileTheBackwardPassGoesOn) {
  const Bench bench;
  ClusterParts parts = on_cpu(bench, {kAllReduce}, {});
  parts.trace = std::make_shared<Trace>();
  parts.coordinator.dealer.max_steps = 3;
  const auto reduced = [trace = parts.trace](ps::WorkerId worker) {
    for (const Trace::Row& row : trace->rows())
      if (row.track == cat("worker ", worker, " reduce")) return row.events.size();
    return size_t{0};
  };
  std::vector<size_t> before(2), given(2);
  std::atomic<int> late = 0;
  Hooks hooks;
  hooks.before_backward = [&](ps::WorkerId worker, const Batch&) {
    before[worker] = reduced(worker);
    given[worker] = 0;
  };
  hooks.on_gradient = [&](ps::WorkerId worker, size_t, const Tensor&) {
    if (++given[worker] < 4) return;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (reduced(worker) == before[worker] && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    late += reduced(worker) == before[worker];
  };
  const Trial trial = train(on_devices(bench, std::move(parts), late_backend(5), hooks));
  BOOST_TEST((trial.result.outcome == ps::Outcome::completed), trial.result.failure);
  BOOST_TEST(late == 0);
}

// Gradients that stay on the device, that go to servers, and layers that change from one to the other on the way.
BOOST_AUTO_TEST_CASE(RunsOfReplayedStepsEqualTheCpus) {
  const Bench bench;
  const Change comes_and_goes = [](ClusterParts& parts) {
    parts.coordinator.changes = {{8, {{"fc2", kSync}, {"*", kAllReduce}}}, {14, {{"*", kAllReduce}}}};
  };
  for (const auto& [policies, change] : std::vector<std::pair<std::vector<ps::Policy>, Change>>{
           {{kSync}, {}}, {{kAllReduce}, comes_and_goes}, {{kAllReduce, kSync, kAllReduce, kSync}, {}}}) {
    const Trial expected = train(on_cpu(bench, policies, change));
    std::mutex mutex;
    std::string said;
    const nn::LaunchOptions launches{true, [&](const std::string& text) {
                                       std::lock_guard lock(mutex);
                                       said += text + "; ";
                                     }};
    const Trial got = train(on_devices(bench, on_cpu(bench, policies, change), late_backend(9), {}, launches));
    BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
    BOOST_TEST((got.parameters() == expected.parameters()));
    BOOST_TEST(said.find("5 graphs from now on") != std::string::npos, said);
    BOOST_TEST_MESSAGE(said);
  }
}

BOOST_AUTO_TEST_CASE(ADeviceThatFailsEndsTheRunWithItsText) {
  const Bench bench;
  const auto backend = late_backend(6);
  Hooks hooks;
  const auto steps = std::make_shared<std::atomic<int>>(0);
  hooks.before_backward = [backend, steps](ps::WorkerId worker, const Batch&) {
    if (worker != 0 || ++*steps != 4) return;
    for (LateStream* stream : backend->all_streams()) stream->break_down("an illegal address in axpy");
  };
  const Trial trial = train(on_devices(bench, on_cpu(bench, {kAllReduce}, {}), backend, hooks));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  BOOST_TEST(trial.result.failure.find("an illegal address in axpy") != std::string::npos, trial.result.failure);
}

BOOST_AUTO_TEST_CASE(AGroupThatCannotBeMadeEndsTheRunWithTheReason) {
  const Bench bench;
  ClusterParts parts = on_devices(bench, on_cpu(bench, {kAllReduce}, {}), late_backend(7));
  parts.devices->seat = [](ps::WorkerId worker) -> Result<int> {
    if (worker == 0) return 0;
    return fail(ErrorKind::invalid, "worker 1 finds no device");
  };
  const Trial trial = train(std::move(parts));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  BOOST_TEST(trial.result.failure.find("worker 1 finds no device") != std::string::npos, trial.result.failure);
}

BOOST_AUTO_TEST_CASE(MissingMemoryIsToldWithTheBucketThatAskedForIt) {
  const Bench bench;
  const auto backend = late_backend(8);
  // From when both have their batch and neither has asked for a bucket.
  const auto from_now = [backend]() noexcept { backend->memory->limit = 1; };
  std::barrier<decltype(from_now)> both(2, from_now);
  std::array<std::atomic<bool>, 2> seen{};
  Hooks hooks;
  hooks.on_gradient = [&](ps::WorkerId worker, size_t, const Tensor&) {
    if (!seen.at(worker).exchange(true)) both.arrive_and_wait();
  };
  const Trial trial = train(on_devices(bench, on_cpu(bench, {kAllReduce}, {}), backend, hooks));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  BOOST_TEST(trial.result.failure.find("no memory for a bucket of ") != std::string::npos, trial.result.failure);
}

BOOST_AUTO_TEST_CASE(OnRealDevicesARunIsTheCpusToRounding, TROUPE_GPU_TEST(1)) {
  const Bench bench;
  const auto backend = load_backend(DeviceKind::cuda).value();
  std::vector<int64_t> batch = {32};
  if (backend->devices().size() > 1) batch = {20, 12};
  const auto parts = [&] {
    ClusterParts made = bench.parts(batch, {kAllReduce});
    made.coordinator.dealer.max_steps = 20;
    made.coordinator.checkpoint_every_steps = 7;
    made.bucket_bytes = 3000;
    return made;
  };
  const Trial expected = train(parts()), got = train(on_devices(bench, parts(), backend));
  BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
  BOOST_TEST(distance(got.parameters(), expected.parameters()) < 1e-4);
}

BOOST_AUTO_TEST_SUITE_END()
