#include <boost/test/unit_test.hpp>

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <utility>

#include <troupe/actors/actor_queue.h>
#include <troupe/actors/server.h>
#include <troupe/actors/system_config.h>
#include <troupe/ps/param/shard_device.h>
#include <troupe/ps/transport/memory_transport.h>

#include <tests/support/device_lab.h>
#include <tests/support/gpu.h>

// Whole runs whose servers live on late devices, which add and update as the CPU does: every run that does not depend
// on who comes first equals the one of servers in host memory bit for bit.

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(device_server)

namespace {

using Change = std::function<void(ClusterParts&)>;

ClusterParts servers_on(std::shared_ptr<Backend> backend, const Bench& bench, ClusterParts parts) {
  parts.server_devices = DeviceParts{
      backend, [devices = backend->devices().size()](uint32_t server) -> Result<int> {
        return static_cast<int>(server % devices);
      },
      bench.optimizer};
  return parts;
}

ClusterParts in_host_memory(const Bench& bench, std::vector<int64_t> batch, std::vector<ps::Policy> policies,
                            const Change& change = {}, Hooks hooks = {}) {
  ClusterParts parts = bench.parts(std::move(batch), std::move(policies), std::move(hooks));
  parts.coordinator.dealer.max_steps = 16;
  if (change) change(parts);
  return parts;
}

void check_equal(std::vector<int64_t> batch, std::vector<ps::Policy> policies, const Change& change = {},
                 const std::function<Hooks()>& hooks = [] { return Hooks{}; }, const Bench& bench = {}) {
  const Trial expected = train(in_host_memory(bench, batch, policies, change, hooks()));
  BOOST_TEST_REQUIRE((expected.result.outcome == ps::Outcome::completed), expected.result.failure);
  for (const uint64_t seed : {1, 2}) {
    const Trial got = train(
        servers_on(late_backend(seed), bench, in_host_memory(bench, batch, policies, change, hooks())));
    BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
    BOOST_TEST((got.parameters() == expected.parameters()), "seed " << seed);
    BOOST_TEST(got.result.evaluation.stats.loss_sum == expected.result.evaluation.stats.loss_sum);
    BOOST_TEST(got.checkpoints.size() == expected.checkpoints.size());
  }
}

Hooks nan_once(ps::WorkerId which, int step) {
  Hooks hooks;
  const auto steps = std::make_shared<std::atomic<int>>(0);
  hooks.on_gradient = [=](ps::WorkerId worker, size_t layer, Tensor& gradient) {
    if (worker == which && layer == 1 && (*steps)++ == step)
      gradient.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  };
  return hooks;
}

}  // namespace

BOOST_AUTO_TEST_CASE(SyncRunsEqualThoseOfServersInHostMemory) {
  Bench bench;
  bench.optimizer = {.name = "adamw", .learning_rate = 0.01, .weight_decay = 0.1};
  check_equal({20, 12}, {kSync}, {}, [] { return Hooks{}; }, bench);
}

BOOST_AUTO_TEST_CASE(AsynchronousRunsOfOneWorkerDoToo) { check_equal({32}, {kAsync, kSsp, kAsync, kSsp}); }

BOOST_AUTO_TEST_CASE(SoDoClippedRunsThatSkipAStepAndWriteCheckpointsOnTheWay) {
  check_equal({20, 12}, {kSync},
              [](ClusterParts& parts) {
                parts.coordinator.clip_norm = 0.3;
                parts.coordinator.skip_non_finite = true;
                parts.coordinator.checkpoint_every_steps = 5;
              },
              [] { return nan_once(1, 4); });
}

// Values and optimizer state go to the workers, and come back.
BOOST_AUTO_TEST_CASE(SoDoRunsWhoseLayersLeaveTheServersAndComeBack) {
  check_equal({20, 12}, {kSync}, [](ClusterParts& parts) {
    parts.coordinator.changes = {{5, {{"fc2", ps::Policy{ps::Mode::all_reduce}}, {"*", kSync}}}, {11, {{"*", kSync}}}};
  });
}

BOOST_AUTO_TEST_CASE(WorkersAndServersMayShareADevice) {
  const Bench bench;
  const Trial expected = train(in_host_memory(bench, {20, 12}, {kSync}));
  const auto backend = late_backend(3);
  const Trial got =
      train(servers_on(backend, bench, on_devices(bench, in_host_memory(bench, {20, 12}, {kSync}), backend)));
  BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
  BOOST_TEST((got.parameters() == expected.parameters()));
}

BOOST_AUTO_TEST_CASE(AServerWhoseDeviceFailsIsReplacedAndGoesOnFromItsStore) {
  const Bench bench;
  const auto stores = [](ClusterParts& parts) {
    parts.coordinator.max_restarts = 1;
    parts.coordinator.servers_recover = true;
    parts.store = [stores = std::vector{ps::make_memory_store(9), ps::make_memory_store(9)}](ps::ServerId server) {
      return stores[server];
    };
  };
  const Trial expected = train(in_host_memory(bench, {20, 12}, {kSync}, stores));
  const auto backend = late_backend(4);
  Hooks hooks;
  const auto steps = std::make_shared<std::atomic<int>>(0);
  hooks.before_backward = [backend, steps](ps::WorkerId worker, const Batch&) {
    if (worker == 0 && ++*steps == 6) backend->all_streams().back()->break_down("an uncorrectable error of memory");
  };
  const Trial got = train(servers_on(backend, bench, in_host_memory(bench, {20, 12}, {kSync}, stores, hooks)));
  BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
  BOOST_TEST_REQUIRE(!got.events.empty());
  BOOST_TEST(got.events[0].find("an uncorrectable error of memory") != std::string::npos, got.events[0]);
  BOOST_TEST((got.parameters() == expected.parameters()));
}

BOOST_AUTO_TEST_CASE(MissingMemoryEndsTheRunWithShardLayerAndBytes) {
  const Bench bench;
  const auto backend = late_backend(5);
  backend->memory->limit = 1;
  const Trial trial = train(servers_on(backend, bench, in_host_memory(bench, {20, 12}, {kSync})));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  const std::string& why = trial.result.failure;
  BOOST_TEST(why.find(": no memory for ") != std::string::npos, why);
  BOOST_TEST(why.find(" bytes of parameters and optimizer state of layer fc1") != std::string::npos, why);
}

BOOST_AUTO_TEST_CASE(ADeviceThatIsNotThereEndsTheRunWithTheReason) {
  const Bench bench;
  ClusterParts parts = servers_on(late_backend(6), bench, in_host_memory(bench, {20, 12}, {kSync}));
  parts.server_devices->seat = [](uint32_t server) -> Result<int> {
    return fail(ErrorKind::missing, cat("server ", server, " finds no device"));
  };
  const Trial trial = train(std::move(parts));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  BOOST_TEST(trial.result.failure.find("finds no device") != std::string::npos, trial.result.failure);
}

namespace {

/// A queue whose tasks the test runs, in order.
class ByHand final : public Executor {
 public:
  void submit(std::function<void()> task) override {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  /// The next one, as soon as it is there.
  void run() {
    std::unique_lock lock(mutex_);
    BOOST_REQUIRE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return !tasks_.empty(); }));
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
  }
  void wait_for(size_t tasks) {
    std::unique_lock lock(mutex_);
    BOOST_REQUIRE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return tasks_.size() >= tasks; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
};

constexpr auto kLong = std::chrono::seconds(20);
const ps::Endpoint kServer{ps::Role::server, 0, 1}, kWorker{ps::Role::worker, 0, 1},
    kCoordinator{ps::Role::coordinator, 0, 1};

/// One server with a layer of 8 elements, `async`.
ServerParts server_alone(std::shared_ptr<ps::Transport> transport, std::shared_ptr<test::LateBackend> backend,
                         std::shared_ptr<Executor> queue) {
  ServerParts parts;
  parts.options.self = kServer;
  parts.options.optimizer = ps::make_optimizer({.name = "sgd"}).value();
  parts.store = ps::make_memory_store(1);
  parts.make_shard = [store = parts.store](const ps::ShardOptions& options) {
    return std::make_unique<ps::Shard>(options, store, [](const ps::Slice& slice) {
      return ps::SliceState{slice.id, Tensor::zeros({slice.count()})};
    });
  };
  parts.device = ServerDevice{[backend] { return ps::ShardDevice::make("server 0", backend, 0, {.name = "sgd"}); },
                              std::move(queue)};
  parts.transport = std::move(transport);
  return parts;
}

ps::Envelope admission() {
  ps::Membership membership;
  membership.generation = 1;
  membership.workers = membership.servers = {1};
  membership.layout = std::make_shared<const ps::Layout>(
      ps::make_layout({{"fc1", 8, {{"fc1.weight", {8}, 0}}}}, {kAsync}, ps::LayoutOptions{}));
  membership.rebase = 0;
  return {kCoordinator, kServer, 1, std::move(membership)};
}

ps::Envelope push(ps::Sequence sequence) {
  ps::Push push{sequence, 0, static_cast<ps::Step>(sequence) - 1, 0, 1};
  push.gradients = {Tensor::zeros({8})};
  return {kWorker, kServer, 1, std::move(push)};
}

}  // namespace

// One thread runs every actor, and the device stands still while the server takes a push and an image for its store.
BOOST_AUTO_TEST_CASE(NoActorsThreadWaitsForTheDevice) {
  const auto backend = late_backend(7);
  const auto transport = std::make_shared<ps::MemoryTransport>();
  std::promise<void> admitted, acknowledged, ran, go_on;
  transport->attach(kCoordinator, [&](const ps::EnvelopePtr&) { admitted.set_value(); });
  transport->attach(kWorker, [&](const ps::EnvelopePtr&) { acknowledged.set_value(); });

  SystemConfig config(1);
  caf::actor_system system(config);
  spawn_server(system, server_alone(transport, backend, make_actor_queue(system, "shard")));
  transport->send(admission());
  BOOST_TEST_REQUIRE((admitted.get_future().wait_for(kLong) == std::future_status::ready));

  const auto gate = go_on.get_future().share();
  for (auto* stream : backend->all_streams()) stream->submit([gate] { gate.wait_for(kLong); });
  transport->send(push(1));
  system.spawn([&ran] { ran.set_value(); });
  BOOST_TEST((ran.get_future().wait_for(kLong / 2) == std::future_status::ready));
  auto answer = acknowledged.get_future();
  BOOST_TEST((answer.wait_for(std::chrono::seconds(0)) == std::future_status::timeout));
  go_on.set_value();
  BOOST_TEST((answer.wait_for(kLong) == std::future_status::ready));
  transport->send({kCoordinator, kServer, 1, ps::Finish{}});
}

// What was thrown may have left the shard half changed.
BOOST_AUTO_TEST_CASE(NothingIsDoneWithAShardThatThrew) {
  const auto backend = late_backend(8);
  const auto transport = std::make_shared<ps::MemoryTransport>();
  const auto queue = std::make_shared<ByHand>();
  std::promise<void> admitted;
  transport->attach(kCoordinator, [&](const ps::EnvelopePtr&) { admitted.set_value(); });
  transport->attach(kWorker, [](const ps::EnvelopePtr&) {});
  SystemConfig config(1);
  caf::actor_system system(config);
  spawn_server(system, server_alone(transport, backend, queue));
  transport->send(admission());
  queue->run();
  BOOST_TEST_REQUIRE((admitted.get_future().wait_for(kLong) == std::future_status::ready));

  transport->send(push(1));
  transport->send(push(2));
  queue->wait_for(2);
  const size_t limit = std::exchange(backend->memory->limit, 1);
  queue->run();  // no memory for the first one's gradient
  backend->memory->limit = limit;
  const auto kernels = [&] {
    int64_t count = 0;
    for (const auto* stream : backend->all_streams()) count += stream->counts.kernels;
    return count;
  };
  const int64_t before = kernels();
  queue->run();
  BOOST_TEST(kernels() == before);
  queue->run();  // the server has ended, and its shard goes
}

BOOST_AUTO_TEST_CASE(OnARealDeviceARunIsTheOneOfHostMemoryToRounding, TROUPE_GPU_TEST(1)) {
  const Bench bench;
  const Change change = [](ClusterParts& parts) {
    parts.coordinator.clip_norm = 1;
    parts.coordinator.checkpoint_every_steps = 7;
  };
  const Trial expected = train(in_host_memory(bench, {20, 12}, {kSync}, change));
  const Trial got = train(
      servers_on(load_backend(DeviceKind::cuda).value(), bench, in_host_memory(bench, {20, 12}, {kSync}, change)));
  BOOST_TEST_REQUIRE((got.result.outcome == ps::Outcome::completed), got.result.failure);
  BOOST_TEST(distance(got.parameters(), expected.parameters()) < 1e-4);
}

BOOST_AUTO_TEST_SUITE_END()
