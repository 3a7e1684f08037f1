#include <boost/test/unit_test.hpp>

#include <condition_variable>
#include <mutex>

#include <troupe/actors/local_group.h>
#include <troupe/kernels/base/random.h>

using namespace troupe;

namespace {

constexpr int64_t kCount = 50'000;  // several tiles, the last one short

Tensor random_values(uint64_t seed) {
  Random random(seed);
  Tensor t = Tensor::empty({kCount});
  for (float& x : t.span<float>()) x = static_cast<float>(random.normal());
  return t;
}

std::vector<float> floats(const Tensor& t) {
  const auto values = t.span<float>();
  return {values.begin(), values.end()};
}

/// An executor whose tasks the test runs.
class Later final : public Executor {
 public:
  void submit(std::function<void()> task) override { tasks.push_back(std::move(task)); }
  void submit_idle(std::function<void()> task) override { idle_tasks.push_back(std::move(task)); }
  void run() {
    while (!tasks.empty() || !idle_tasks.empty()) {
      auto& from = tasks.empty() ? idle_tasks : tasks;
      auto task = std::move(from.front());
      from.erase(from.begin());
      task();
    }
  }
  std::vector<std::function<void()>> tasks, idle_tasks;
};

/// A group of workers, and what was reported to each.
class Group {
 public:
  explicit Group(size_t workers, const char* optimizer = "sgd") {
    ps::OptimizerOptions o;
    o.name = optimizer;
    o.momentum = o.name == "sgd" ? 0.9 : 0;
    options.workers = workers;
    options.layers = {
        {"fc1", kCount, {{"fc1.weight", {kCount - 10}, 0}, {"fc1.bias", {10}, kCount - 10, ParamKind::bias}}},
        {"fc2", kCount, {{"fc2.weight", {kCount}, 0}}}};
    options.optimizer = *ps::make_optimizer(o);
    group = std::make_shared<LocalGroup>(options);
    for (size_t w = 0; w < workers; ++w) {
      queues.push_back(std::make_shared<Later>());
      members.push_back(group->join(w, queues.back(), {}));
    }
    reports.resize(workers);
  }

  Reducer::Report report(size_t w) {
    return [this, w](TaskDone done) { reports[w].push_back(std::move(done)); };
  }
  ps::ApplyLocal update(ps::LayerId layer) const {
    ps::ApplyLocal task;
    task.layer = layer;
    task.gradient_scale = 0.25;
    task.local.values = random_values(100 + layer);
    for (size_t i = 0; i < options.optimizer->state_names().size(); ++i)
      task.local.state.push_back(Tensor::zeros({kCount}));
    return task;
  }
  ps::Reduce task(size_t w, ps::LayerId layer, bool apply = true) const {
    ps::Reduce task{0, layer, random_values(w), {}};
    if (apply) task.apply = update(layer);
    return task;
  }
  void run() {
    for (const auto& queue : queues) queue->run();
  }

  LocalGroupOptions options;
  std::shared_ptr<LocalGroup> group;
  std::vector<std::shared_ptr<Later>> queues;
  std::vector<std::shared_ptr<Reducer>> members;
  std::vector<std::vector<TaskDone>> reports;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(local_group)

BOOST_AUTO_TEST_CASE(ASumIsAddedInRankOrderWhoeverCameFirst) {
  Group g(3);
  for (const size_t w : {2u, 0u, 1u}) g.members[w]->reduce({g.task(w, 0, false)}, g.report(w));
  g.run();
  const Tensor a = random_values(0), b = random_values(1), c = random_values(2);
  for (const auto& reports : g.reports) {
    BOOST_TEST_REQUIRE(reports.size() == 1u);
    const Tensor sum = std::get<ReduceDone>(reports[0]).gradient;
    for (size_t i = 0; i < size_t(kCount); ++i)
      BOOST_REQUIRE(std::as_const(sum).span<float>()[i] ==
                    (std::as_const(a).span<float>()[i] + std::as_const(b).span<float>()[i]) +
                        std::as_const(c).span<float>()[i]);
  }
}

BOOST_AUTO_TEST_CASE(AnUpdateInTilesIsOneOptimizerStepOnTheSum) {
  for (const char* name : {"sgd", "adam", "lamb"}) {
    Group g(2, name);
    for (const size_t w : {0u, 1u}) g.members[w]->reduce({g.task(w, 0), g.task(w, 1)}, g.report(w));
    g.run();
    BOOST_TEST_REQUIRE(g.reports[0].size() == 1u);
    const auto& done = std::get<ApplyDone>(g.reports[0][0]);
    BOOST_TEST_REQUIRE(done.layers.size() == 2u);

    const ps::ApplyLocal task = g.update(0);
    ps::SliceState expected = task.local;
    const Tensor a = random_values(0), b = random_values(1);
    const std::vector<std::span<const float>> gradients = {a.span<float>(), b.span<float>()};
    std::vector<std::span<float>> state;
    for (Tensor& t : expected.state) state.push_back(t.span<float>());
    const std::vector<ps::Segment> segments = {{0, kCount - 10, ParamKind::weight},
                                               {kCount - 10, kCount, ParamKind::bias}};
    ps::SliceUpdate update;
    update.in = std::as_const(task.local.values).span<float>();
    update.out = expected.values.span<float>();
    update.gradients = gradients;
    update.gradient_scale = 0.25;
    update.state = state;
    update.segments = segments;
    g.options.optimizer->apply(update);
    BOOST_TEST((floats(done.layers[0].second.values) == floats(expected.values)), name);
    BOOST_TEST(done.layers[0].second.updates == 1);
  }
}

BOOST_AUTO_TEST_CASE(AllWorkersHoldTheSameLayerAfterAnUpdate) {
  Group g(2);
  for (const size_t w : {0u, 1u}) g.members[w]->reduce({g.task(w, 0)}, g.report(w));
  g.run();
  const auto& first = std::get<ApplyDone>(g.reports[0].at(0)).layers[0].second;
  const auto& second = std::get<ApplyDone>(g.reports[1].at(0)).layers[0].second;
  BOOST_TEST(first.values.buffer() == second.values.buffer());
  BOOST_TEST(first.state[0].buffer() == second.state[0].buffer());
}

BOOST_AUTO_TEST_CASE(NothingIsDoneBeforeTheLastWorkerHasCome) {
  Group g(2);
  g.members[1]->reduce({g.task(1, 0)}, g.report(1));
  g.run();
  BOOST_TEST(g.reports[1].empty());
  g.members[0]->reduce({g.task(0, 0)}, g.report(0));
  BOOST_TEST(g.reports[1].empty());  // nobody has helped yet
  g.queues[1]->run();
  BOOST_TEST(g.reports[0].size() == 1u);
  BOOST_TEST(g.reports[1].size() == 1u);
}

BOOST_AUTO_TEST_CASE(WhoHasSomethingToComputeLeavesTheTilesToTheOthers) {
  Group g(2);
  for (size_t w : {0, 1}) g.members[w]->reduce({g.task(w, 0)}, g.report(w));
  for (const auto& queue : g.queues) {
    BOOST_TEST(queue->tasks.empty());
    BOOST_TEST(queue->idle_tasks.size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(AnUpdateByASumThatAllHaveTakesItOnce) {
  Group g(2);
  ps::ApplyLocal task = g.update(0);
  task.gradient = random_values(7);
  for (const size_t w : {0u, 1u}) g.members[w]->apply(task, g.report(w));
  g.run();
  const Tensor after = std::get<ApplyDone>(g.reports[1].at(0)).layers[0].second.state[0];
  const Tensor gradient = random_values(7);
  BOOST_TEST(std::as_const(after).span<float>()[5] == std::as_const(gradient).span<float>()[5] * 0.25f);
}

BOOST_AUTO_TEST_CASE(ABucketThatDiffersFailsTheGroupAndNamesBoth) {
  Group g(2);
  g.members[0]->reduce({g.task(0, 0)}, g.report(0));
  g.members[1]->reduce({g.task(1, 1)}, g.report(1));
  for (const auto& reports : g.reports) {
    BOOST_TEST_REQUIRE(reports.size() == 1u);
    BOOST_TEST(
        std::get<TaskFailed>(reports[0]).what ==
        "worker 1 reduces a bucket of step 0 with layer 1 (50000 elements) where worker 0 reduces a bucket of step "
        "0 with layer 0 (50000 elements); all workers of a group must have the same layers in the same gradient "
        "order");
  }
}

BOOST_AUTO_TEST_CASE(WhoLeavesIsWaitedForNoMore) {
  Group g(2);
  g.members[0]->reduce({g.task(0, 0)}, g.report(0));
  g.members[1].reset();
  g.members[0]->reduce({g.task(0, 1)}, g.report(0));
  g.run();
  BOOST_TEST(g.reports[0].empty());
}

// A bucket is reduced on another thread while the workers' own queues still compute.
BOOST_AUTO_TEST_CASE(AHelperReducesWhileTheWorkersCompute) {
  Group g(2);
  const auto helper = std::make_shared<Later>();
  LocalGroupOptions options = g.options;
  options.helpers = 1;
  options.make_helper = [helper](size_t) { return helper; };
  const auto group = std::make_shared<LocalGroup>(options);
  const auto compute = std::make_shared<Later>();
  const std::vector<std::shared_ptr<Reducer>> members = {group->join(0, compute, {}), group->join(1, compute, {})};
  for (const size_t w : {0u, 1u}) members[w]->reduce({g.task(w, 0)}, g.report(w));
  helper->run();
  BOOST_TEST(g.reports[0].size() == 1u);
  BOOST_TEST(compute->idle_tasks.size() == 2u);
  helper->idle_tasks.clear();
  compute->run();
}

// A task of a helper holds the group: were its queue dropped with that, it could be on the helper's own thread.
BOOST_AUTO_TEST_CASE(AHelperIsDroppedByWhoLeavesThoughItHasWorkToDo) {
  Group g(2);
  auto helper = std::make_shared<Later>();
  const std::weak_ptr<Later> lives = helper;
  LocalGroupOptions options = g.options;
  options.helpers = 1;
  options.make_helper = [&](size_t) { return std::move(helper); };
  const auto group = std::make_shared<LocalGroup>(options);
  const auto compute = std::make_shared<Later>();
  std::vector<std::shared_ptr<Reducer>> members = {group->join(0, compute, {}), group->join(1, compute, {})};
  for (const size_t w : {0u, 1u}) members[w]->reduce({g.task(w, 0)}, g.report(w));
  const auto begun = lives.lock()->tasks;  // what its thread is at
  members[1].reset();
  BOOST_TEST(lives.expired());
}

BOOST_AUTO_TEST_SUITE_END()
