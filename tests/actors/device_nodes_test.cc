#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string_view>

#include <troupe/actors/node_run.h>
#include <troupe/ps/transport/memory_transport.h>

#include "tests/support/device_lab.h"

// Runs of several nodes on late devices: those of one host add up on the devices, servers between hosts. Sums are taken
// in worker order everywhere, so that every run equals the one of one process bit for bit.

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(device_nodes)

namespace {

struct Nodes {
  std::vector<std::string> hosts;   ///< one node each, with one worker
  std::vector<int64_t> batch;
  int64_t steps = 16;
  int64_t restarts = 0;
  Hooks hooks;
  std::function<void(ClusterParts&)> change;
  std::shared_ptr<ps::Transport> transport = std::make_shared<ps::MemoryTransport>();
};

/// A run's parts, the same in every process.
ClusterParts parts_of(const Nodes& nodes) {
  ClusterParts parts = Bench{}.parts(nodes.batch, {kAllReduce});
  parts.coordinator.dealer.max_steps = nodes.steps;
  parts.coordinator.max_restarts = nodes.restarts;
  parts.bucket_bytes = 3000;
  if (nodes.change) nodes.change(parts);
  return parts;
}

Trial train_on_nodes(const Nodes& nodes, const std::shared_ptr<LateBackend>& backend) {
  const auto transport = nodes.transport;
  ClusterParts own = parts_of(nodes);
  own.transport = transport;
  own.retry_interval = std::chrono::milliseconds(50);
  own.coordinator.roster.nodes = static_cast<int64_t>(nodes.hosts.size());
  own.coordinator.roster.lease_ms = 30'000;
  const auto lab = Lab::start(std::move(own));
  std::vector<std::unique_ptr<NodeRun>> runs;
  for (uint32_t n = 0; n < nodes.hosts.size(); ++n) {
    NodeRunParts node;
    node.hello.name = cat("node ", n);
    node.hello.place = n;
    node.hello.address.host = nodes.hosts[n];
    node.incarnation = 100 + n;
    node.transport = transport;
    node.welcomed = [](const ps::Welcome&) {};
    node.set_routes = [](const ps::Routes&) {};
    node.measure = [] { return ps::Heartbeat{}; };
    node.retry_interval = std::chrono::milliseconds(50);
    node.prepare = [&nodes, backend](const ps::Welcome&) -> Result<ClusterParts> {
      ClusterParts parts = on_devices(Bench{}, parts_of(nodes), backend, nodes.hooks);
      parts.wants_devices = true;
      return parts;
    };
    runs.push_back(NodeRun::join(std::move(node)));
  }
  Trial trial = Lab::finish(lab);
  for (const auto& run : runs) static_cast<void>(run->wait());
  return trial;
}

Trial train_in_one_process(const Nodes& nodes) {
  ClusterParts parts = parts_of(nodes);
  for (ps::Policy& policy : parts.coordinator.policies) policy = kSync;
  return train(std::move(parts));
}

/// `pushers`: workers that push and pull, each of them everything once a step; the others pull what they begin with.
void check_equal(const Nodes& nodes, int joins, const std::set<ps::WorkerId>& pushers) {
  const Trial expected = train_in_one_process(nodes);
  BOOST_TEST_REQUIRE((expected.result.outcome == ps::Outcome::completed), expected.result.failure);
  const auto backend = late_backend(1, nodes.hosts.size());
  const Trial got = train_on_nodes(nodes, backend);
  BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
  BOOST_TEST((got.parameters() == expected.parameters()));
  BOOST_TEST(backend->joins == joins);
  int64_t elements = 0;
  for (const LayerSpec& layer : parts_of(nodes).coordinator.layers) elements += layer.count;
  for (ps::WorkerId w = 0; w < nodes.batch.size(); ++w) {
    BOOST_TEST(got.result.workers[w].pushed_bytes == (pushers.contains(w) ? 4 * elements * nodes.steps : 0),
               "worker " << w);
    BOOST_TEST(got.result.workers[w].pulled_bytes == 4 * elements * (pushers.contains(w) ? nodes.steps : 1),
               "worker " << w);
  }
}

/// Notes what servers are asked for, each pull once, however often it is said.
class PullCount final : public ps::Transport {
 public:
  void attach(const ps::Endpoint& endpoint, Sink sink) override { next_.attach(endpoint, std::move(sink)); }
  void detach(const ps::Endpoint& endpoint) override { next_.detach(endpoint); }
  bool reliable() const override { return next_.reliable(); }
  void send(ps::Envelope envelope) override {
    if (const auto* pull = std::get_if<ps::Pull>(&envelope.body)) {
      std::lock_guard lock(mutex_);
      pulls_[pull->step].emplace(envelope.from, pull->ticket);
    }
    next_.send(std::move(envelope));
  }

  /// For weights of steps [first, last).
  size_t between(ps::Step first, ps::Step last) const {
    std::lock_guard lock(mutex_);
    size_t count = 0;
    for (auto at = pulls_.lower_bound(first); at != pulls_.lower_bound(last); ++at) count += at->second.size();
    return count;
  }

 private:
  ps::MemoryTransport next_;
  mutable std::mutex mutex_;
  std::map<ps::Step, std::set<std::pair<ps::Endpoint, uint64_t>>> pulls_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(WorkersOfOneHostAddUpOnTheirDevices) {
  check_equal({.hosts = {"a", "a"}, .batch = {20, 12}}, 2, {0});
}

BOOST_AUTO_TEST_CASE(SoDoTheyBesideAnotherHost) {
  check_equal({.hosts = {"a", "a", "b"}, .batch = {12, 12, 8}}, 2, {0, 2});
}

BOOST_AUTO_TEST_CASE(HostsOfOneWorkerEachHaveNoGroup) {
  check_equal({.hosts = {"a", "b"}, .batch = {20, 12}}, 0, {0, 1});
}

BOOST_AUTO_TEST_CASE(ClippedGradientsAreAddedUpToo) {
  check_equal({.hosts = {"a", "a"},
               .batch = {20, 12},
               .change = [](ClusterParts& parts) { parts.coordinator.clip_norm = 0.3; }},
              2, {0});
}

BOOST_AUTO_TEST_CASE(GradientsStayOnTheDeviceUntilTheyAreAddedUp) {
  Nodes nodes{.hosts = {"a", "a"}, .batch = {20, 12}};
  const auto on_host = std::make_shared<std::atomic<int>>(0), on_device = std::make_shared<std::atomic<int>>(0);
  nodes.hooks.on_gradient = [=](ps::WorkerId, size_t, const Tensor& gradient) {
    ++*(gradient.device().kind == DeviceKind::cpu ? on_host : on_device);
  };
  const Trial got = train_on_nodes(nodes, late_backend(1, 2));
  BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
  BOOST_TEST(*on_host == 0);
  BOOST_TEST(*on_device == 2 * 4 * nodes.steps);
}

// But for the first step, and the test behind the last.
BOOST_AUTO_TEST_CASE(ServersAreAskedByAHostOfSeveralAsByOneOfOne) {
  const auto pulls_of = [](Nodes nodes) {
    const auto count = std::make_shared<PullCount>();
    nodes.transport = count;
    const Trial got = train_on_nodes(nodes, late_backend(1, nodes.hosts.size()));
    BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
    return count->between(1, nodes.steps);
  };
  const size_t one = pulls_of({.hosts = {"a"}, .batch = {32}});
  BOOST_TEST(one > 0u);
  BOOST_TEST(pulls_of({.hosts = {"a", "a", "a"}, .batch = {12, 12, 8}}) == one);
}

BOOST_AUTO_TEST_CASE(TestsAndCheckpointsComeBetweenTheSteps) {
  const Nodes nodes{.hosts = {"a", "a"}, .batch = {20, 12}, .change = [](ClusterParts& parts) {
    parts.coordinator.dealer.train_samples = 128;  // a test every four steps
    parts.coordinator.evaluate_every_epochs = 1;
    parts.coordinator.checkpoint_every_steps = 3;
  }};
  const Trial expected = train_in_one_process(nodes);
  const auto backend = late_backend(1, 2);
  const Trial got = train_on_nodes(nodes, backend);
  BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
  BOOST_TEST((got.parameters() == expected.parameters()));
  BOOST_TEST_REQUIRE(got.checkpoints.size() == expected.checkpoints.size());
  for (size_t i = 0; i < got.checkpoints.size(); ++i)
    BOOST_TEST(got.checkpoints[i].evaluation.stats.loss_sum == expected.checkpoints[i].evaluation.stats.loss_sum);
  BOOST_TEST(backend->joins == 2);
}

// From step 6 on each pushes its own of fc2, which no entry calls all_reduce any more; later it comes back.
BOOST_AUTO_TEST_CASE(APolicyChangesAndComesBack) {
  const Nodes nodes{.hosts = {"a", "a"}, .batch = {20, 12}, .change = [](ClusterParts& parts) {
    parts.coordinator.changes = {{6, {{"fc2", kSsp}, {"*", kAllReduce}}}, {12, {{"*", kAllReduce}}}};
  }};
  const auto backend = late_backend(1, 2);
  const Trial got = train_on_nodes(nodes, backend);
  BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
  BOOST_TEST(got.result.steps == nodes.steps);
  BOOST_TEST(backend->joins == 6);
  BOOST_TEST(got.result.workers[1].pushed_bytes > 0);
}

// The other two are a group of their own at once, and bigger again when the lost one has come back.
BOOST_AUTO_TEST_CASE(TheRunGoesOnWithoutAMemberInASmallerGroup) {
  Nodes nodes{.hosts = {"a", "a", "a"}, .batch = {12, 12, 8}, .change = [](ClusterParts& parts) {
    parts.coordinator.on_loss = ps::OnLoss::shrink;
  }};
  const auto calls = std::make_shared<std::atomic<int>>(0);
  nodes.hooks.on_gradient = [calls](ps::WorkerId worker, size_t layer, const Tensor&) {
    if (worker == 2 && layer == 0 && ++*calls == 5) throw std::runtime_error("worker 2 is lost");
  };
  const auto backend = late_backend(1, 3);
  const Trial got = train_on_nodes(nodes, backend);
  BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
  BOOST_TEST(got.result.workers_dropped == 1);
  BOOST_TEST(backend->joins >= 5);
}

// It has begun a step with weights that came to its device, and computes that step without a group: gradients stay
// where the weights are, and servers refuse those of a device.
BOOST_AUTO_TEST_CASE(WhoeverIsLeftAlonePushesFromHostMemory) {
  const Nodes nodes{.hosts = {"a", "a"}, .batch = {20, 12}, .change = [](ClusterParts& parts) {
    parts.coordinator.on_loss = ps::OnLoss::shrink;
  }};
  const auto backend = late_backend(1, 2);
  std::atomic<int> calls = 0;
  backend->broadcasting = [&calls](int rank) {
    if (rank == 1 && ++calls == 4 * 3 + 2) throw std::runtime_error("a device is lost");
  };
  const Trial got = train_on_nodes(nodes, backend);
  BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
  BOOST_TEST(got.result.workers_dropped == 1);
}

/// Takes tasks and never runs them.
class Stuck final : public Executor {
 public:
  void submit(std::function<void()>) override {}
};

BOOST_AUTO_TEST_CASE(AMemberThatNeverJoinsEndsTheRunAndIsNamed) {
  const Nodes nodes{.hosts = {"a", "a"}, .batch = {20, 12}, .change = [](ClusterParts& parts) {
    parts.coordinator.join_timeout_ms = 500;
    parts.executor = [](const ps::Endpoint& who, const char* use) -> std::unique_ptr<Executor> {
      if (who.index == 1 && std::string_view(use) == "collective") return std::make_unique<Stuck>();
      return make_cpu_queue(cat(who, '.', use));
    };
  }};
  const Trial got = train_on_nodes(nodes, late_backend(1, 2));
  BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::failed));
  BOOST_TEST(got.result.failure.find(
                 "worker 1 on node 1 (node 1) has not joined the devices of the same host within 0.5 s") == 0u,
             got.result.failure);
}

// It ends in its fifth step, and a new one goes on with it: in another group, and with no gradient lost or counted
// twice. Worker 0 is the one that pushes and pulls.
BOOST_AUTO_TEST_CASE(AMemberThatIsLostIsReplacedAndNothingIsLostOrCountedTwice) {
  Nodes nodes{.hosts = {"a", "a"}, .batch = {20, 12}};
  const Trial expected = train_in_one_process(nodes);
  nodes.restarts = 1;
  for (const ps::WorkerId lost : {1u, 0u})
    for (const size_t layer : {3u, 0u}) {  // before the first bucket is full, and after it has been summed
      const auto calls = std::make_shared<std::atomic<int>>(0);
      nodes.hooks.on_gradient = [calls, lost, layer](ps::WorkerId worker, size_t at, const Tensor&) {
        if (worker == lost && at == layer && ++*calls == 5) throw std::runtime_error("a worker is lost");
      };
      const auto backend = late_backend(1, 2);
      const Trial got = train_on_nodes(nodes, backend);
      BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
      BOOST_TEST((got.parameters() == expected.parameters()), "worker " << lost << ", layer " << layer);
      BOOST_TEST(backend->joins == 4);
    }
}

// Between a step's sums and the weights that follow: before the first of three pieces of them has been given, and
// after. Worker 0 is the one that has them.
BOOST_AUTO_TEST_CASE(SoIsOneThatIsLostWhileWeightsAreGiven) {
  Nodes nodes{.hosts = {"a", "a"}, .batch = {20, 12}, .restarts = 1};
  const Trial expected = train_in_one_process(nodes);
  for (const int lost : {0, 1})
    for (const int piece : {0, 1, 2}) {
      const auto backend = late_backend(1, 2);
      std::array<std::atomic<int>, 2> calls{};
      backend->broadcasting = [&calls, lost, piece](int rank) {
        if (calls[static_cast<size_t>(rank)]++ == 4 * 3 + piece && rank == lost)
          throw std::runtime_error("a device is lost");
      };
      const Trial got = train_on_nodes(nodes, backend);
      BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
      BOOST_TEST((got.parameters() == expected.parameters()), "worker " << lost << ", piece " << piece);
      BOOST_TEST(got.result.worker_restarts == 1);
      BOOST_TEST(backend->joins == 4);
      // The next group gives them, too, but for its first step and what the lost worker had been dealt, a step or two,
      // which no sum of a group has.
      for (const auto& count : calls) BOOST_TEST(count > 3 * (nodes.steps - 4));
    }
}

BOOST_AUTO_TEST_SUITE_END()
