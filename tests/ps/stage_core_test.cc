#include <boost/test/unit_test.hpp>

#include <deque>

#include <troupe/kernels/base/random.h>
#include <troupe/ps/control/stage_core.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(stage_core)

namespace {

std::shared_ptr<const Schedule> schedule(const std::string& name, uint32_t stages, uint32_t micro_batches,
                                         uint32_t chunks = 1) {
  ScheduleOptions options;
  options.name = name;
  options.stages = stages;
  options.micro_batches = micro_batches;
  options.chunks = chunks;
  auto made = make_schedule(options);
  BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  return std::make_shared<const Schedule>(std::move(*made));
}

Tensor one(double value, int64_t length = 1) {
  const std::vector<float> values(static_cast<size_t>(length), static_cast<float>(value));
  return Tensor::from(std::span<const float>(values), {length});
}
double value_of(const Tensor& t) { return t ? static_cast<double>(t.data<float>()[0]) : 0; }

// What a chunk hands on for a micro-batch, so that whoever gets another one notices.
double activation(uint32_t micro, uint32_t chunk) { return 1 + micro * 64 + chunk; }
double gradient(uint32_t micro, uint32_t chunk) { return -activation(micro, chunk); }

/// The stages of one replica over a network that may lose, double and delay, with executors that take their time.
/// Two layers a chunk.
struct World {
  struct Node {
    std::unique_ptr<StageCore> core;
    std::deque<StageTask> tasks;  ///< at its executor
    std::vector<LayerId> gradients;
    std::vector<double> sums, others;
    int64_t kept = 0, kept_most = 0;
    bool done = false;
    int64_t works_done = 0;
    std::vector<Action> ran;
    std::vector<Step> steps;  ///< of `ran`
  };

  explicit World(std::shared_ptr<const Schedule> made, uint64_t seed = 1, std::vector<TiedLayer> tied = {},
                 bool strict = false, Mode mode = Mode::sync, std::vector<Shape> inputs = {},
                 std::optional<DType> activations = {}, int64_t stall_ms = 1000)
      : plan(std::move(made)), random(seed), nodes(plan->stages) {
    auto membership = std::make_shared<Membership>();
    membership->workers.assign(plan->stages, 1);
    auto layout = std::make_shared<Layout>();
    layout->policies.assign(2 * plan->chunks, {mode});
    membership->layout = std::move(layout);
    for (uint32_t stage = 0; stage < plan->stages; ++stage) {
      StageOptions options;
      options.self = {Role::worker, stage, 1};
      options.plan.schedule = plan;
      for (uint32_t chunk = 0; chunk < plan->chunks; ++chunk) options.plan.chunks.push_back({2 * chunk, 2 * chunk + 2});
      options.plan.tied = tied;
      options.plan.inputs = inputs;
      options.activations = activations;
      options.strict = strict;
      options.evaluation_batch = 4;
      options.stall_ms = stall_ms;
      nodes[stage].core = std::make_unique<StageCore>(options);
      nodes[stage].core->set_membership(membership, 1);
    }
  }

  void take(uint32_t stage, StageCore::Effects effects) {
    Node& node = nodes[stage];
    for (Envelope& envelope : effects.send) {
      if (const auto* fault = std::get_if<Fault>(&envelope.body))
        faults.push_back(fault->what);
      else
        network.push_back(std::move(envelope));
    }
    for (StageTask& task : effects.tasks) {
      node.kept += task.kind == ActionKind::forward;
      node.kept_most = std::max(node.kept_most, node.kept);
      node.kept -= task.kind == ActionKind::backward_weight;
      node.ran.push_back({task.kind, task.micro_batch, task.chunk});
      node.steps.push_back(task.work.step);
      node.tasks.push_back(std::move(task));
    }
    for (auto& complete : effects.gradients) {
      node.gradients.push_back(complete.layer);
      node.sums.push_back(value_of(complete.sum));
      node.others.push_back(value_of(complete.other));
    }
    node.done = node.done || !effects.done.empty();
    node.works_done += std::ssize(effects.done);
  }

  void begin(const Work& work) {
    for (Node& node : nodes)
      node.done = false, node.gradients.clear(), node.sums.clear(), node.others.clear(), node.ran.clear();
    for (uint32_t stage = 0; stage < nodes.size(); ++stage) take(stage, nodes[stage].core->begin(work));
  }

  void deliver(double loss) {
    const size_t at = random.below(network.size());
    const Envelope envelope = network[at];
    if (!random.chance(loss)) network.erase(network.begin() + static_cast<std::ptrdiff_t>(at));  // else a copy stays
    if (random.chance(loss)) return;
    take(envelope.to.index, nodes[envelope.to.index].core->handle(envelope));
  }

  void compute(uint32_t stage) {
    Node& node = nodes[stage];
    const StageTask task = std::move(node.tasks.front());
    node.tasks.pop_front();
    const bool evaluate = task.work.kind == Work::Kind::evaluate;
    Tensor output;
    if (task.kind == ActionKind::forward) {
      BOOST_REQUIRE_EQUAL(value_of(task.input), task.chunk == 0 ? 0 : activation(task.micro_batch, task.chunk - 1));
      if (task.input) BOOST_REQUIRE_EQUAL(task.input.count(), length(task.micro_batch));
      if (task.chunk + 1 < plan->chunks)
        output = one(activation(task.micro_batch, task.chunk), length(task.micro_batch));
    } else if (task.kind == ActionKind::backward_input) {
      BOOST_REQUIRE(!evaluate);
      const bool last = task.chunk + 1 == plan->chunks;
      BOOST_REQUIRE_EQUAL(value_of(task.input), last ? 0 : gradient(task.micro_batch, task.chunk + 1));
      if (task.chunk > 0) output = one(gradient(task.micro_batch, task.chunk), length(task.micro_batch));
    }
    for (const LayerId layer : task.gradients)
      take(stage, node.core->gradient(task.work.number, layer, one(layer + 1 + 100 * stage)));
    take(stage, node.core->computed(task, output));
  }

  // Whatever can happen next, in a random order, until all are done.
  void run(double loss = 0) {
    for (int steps = 0; steps < 200000; ++steps) {
      bool all = true;
      std::vector<uint32_t> busy;
      for (uint32_t stage = 0; stage < nodes.size(); ++stage) {
        all = all && nodes[stage].done;
        if (!nodes[stage].tasks.empty()) busy.push_back(stage);
      }
      if (all) return;
      if (loss > 0 && random.chance(0.02))
        for (uint32_t stage = 0; stage < nodes.size(); ++stage) take(stage, nodes[stage].core->tick());
      if (!network.empty() && (busy.empty() || random.chance(0.5)))
        deliver(loss);
      else if (!busy.empty())
        compute(busy[random.below(busy.size())]);
      else if (loss == 0)
        break;
      BOOST_REQUIRE_MESSAGE(faults.empty(), faults.front());
    }
    for (const Node& node : nodes) BOOST_REQUIRE_MESSAGE(node.done, plan->name << ": " << node.core->waits_for());
  }

  int64_t length(uint32_t micro) const { return lengths.empty() ? 1 : lengths[micro]; }

  std::shared_ptr<const Schedule> plan;
  Random random;
  std::vector<int64_t> lengths;  ///< of what is handed on, by micro-batch
  std::vector<Node> nodes;
  std::vector<Envelope> network;
  std::vector<std::string> faults;
};

Work train(Step step, int64_t count = 16) {
  Work work;
  work.number = static_cast<uint64_t>(step) + 1;
  work.step = step;
  work.range = {0, step * count, count};
  return work;
}

int64_t kept_by(const Schedule& schedule, uint32_t stage) {
  int64_t kept = 0, most = 0;
  for (const Action& action : schedule.actions[stage]) {
    kept += action.kind == ActionKind::forward;
    most = std::max(most, kept);
    kept -= action.kind == ActionKind::backward_weight;
  }
  return most;
}

struct Kind {
  const char* name;
  uint32_t chunks;
};
const std::vector<Kind> kKinds = {{"sequential", 1}, {"gpipe", 1}, {"1f1b", 1}, {"interleaved", 2},
                                  {"zb-h1", 1},      {"zb-h2", 1}, {"zb-v", 2}};

template <class Body>
void every_schedule(const Body& body) {
  for (const Kind& kind : kKinds)
    for (uint32_t stages = 1; stages <= 6; ++stages)
      for (uint32_t micro_batches = 1; micro_batches <= 8; ++micro_batches) {
        if (std::string(kind.name) == "interleaved" && micro_batches % stages != 0) continue;
        body(schedule(kind.name, stages, micro_batches, kind.chunks));
      }
}

Work evaluation(int64_t begin, int64_t count) {
  Work work;
  work.kind = Work::Kind::evaluate;
  work.range = {0, begin, count};
  return work;
}

}  // namespace

BOOST_AUTO_TEST_CASE(EveryScheduleRunsToItsEndOverANetworkThatLosesAndDoubles) {
  uint64_t seed = 0;
  every_schedule([&](std::shared_ptr<const Schedule> plan) {
    World world(plan, ++seed);
    for (Step step = 0; step < 2; ++step) {
      world.begin(train(step));
      world.run(0.1);
      for (uint32_t stage = 0; stage < plan->stages; ++stage) {
        const World::Node& node = world.nodes[stage];
        // Every action of the list once, and the stage's layers, each once.
        size_t actions = 0;
        for (const Action& action : plan->actions[stage])
          if (action.kind <= ActionKind::backward_weight) {
            ++actions;
            BOOST_TEST(std::ranges::count(node.ran, action) == 1);
          }
        BOOST_TEST(node.ran.size() == actions);
        BOOST_TEST(node.gradients.size() == static_cast<size_t>(2 * std::ranges::count(plan->stage_of, stage)));
        BOOST_TEST(node.kept_most <= kept_by(*plan, stage), plan->name << " keeps " << node.kept_most);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(GradientsLeaveInOneOrderWhateverTheTiming) {
  for (const Kind& kind : kKinds) {
    std::vector<std::vector<LayerId>> orders;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      World world(schedule(kind.name, 3, 6, kind.chunks), seed);
      world.begin(train(0));
      world.run(0.2);
      orders.push_back(world.nodes[1].gradients);
      BOOST_TEST((orders.back() == orders.front()), kind.name);
    }
  }
}

BOOST_AUTO_TEST_CASE(AStrictStageKeepsToTheListToTheLetter) {
  for (const Kind& kind : kKinds) {
    const auto plan = schedule(kind.name, 4, 8, kind.chunks);
    World world(plan, 3, {}, true);
    world.begin(train(0));
    world.run();
    for (uint32_t stage = 0; stage < 4; ++stage) {
      std::vector<Action> listed;
      for (const Action& action : plan->actions[stage])
        if (action.kind <= ActionKind::backward_weight) listed.push_back(action);
      BOOST_TEST((world.nodes[stage].ran == listed), kind.name);
    }
  }
}

// Zero-bubble schedules put weight gradients at the tail; a stage that waits runs them before.
BOOST_AUTO_TEST_CASE(NoStageIdlesWhileSomethingItMayRunIsReady) {
  World world(schedule("zb-h1", 2, 4), 1);
  world.begin(train(0));
  // Stage 1 never answers: stage 0 runs the forwards that its schedule keeps, and no more.
  while (!world.nodes[0].tasks.empty()) world.compute(0);
  BOOST_TEST(world.nodes[0].kept == kept_by(*world.plan, 0));
  BOOST_TEST(world.nodes[0].core->waits_for() == "gradients of micro-batch 0 from worker 1 (stage 1 of replica 0)");

  // Gradients of micro-batch 1 overtake those of 0, and are not waited with.
  for (uint32_t micro : {1u, 0u}) {
    const SampleRange samples{0, micro * 4, 4};
    Activation activation{Activation::Kind::backward, 0, micro, 0, samples, {one(gradient(micro, 1))}};
    world.take(0, world.nodes[0].core->handle({{Role::worker, 1, 1}, {Role::worker, 0, 1}, 1, activation}));
    BOOST_TEST((world.nodes[0].tasks.front().kind == ActionKind::backward_input));
    BOOST_TEST(world.nodes[0].tasks.front().micro_batch == micro);
    while (!world.nodes[0].tasks.empty()) world.compute(0);
  }
}

BOOST_AUTO_TEST_CASE(AStageThatIsAStepAheadIsWaitedFor) {
  World world(schedule("1f1b", 2, 2), 1);
  world.begin(train(0));
  world.run();
  // Stage 0 begins step 1 while stage 1 has not: what it sends waits.
  world.nodes[0].done = world.nodes[1].done = false;
  world.take(0, world.nodes[0].core->begin(train(1)));
  while (!world.nodes[0].tasks.empty() || !world.network.empty()) {
    if (!world.network.empty())
      world.deliver(0);
    else
      world.compute(0);
  }
  world.take(1, world.nodes[1].core->begin(train(1)));
  world.run();
  BOOST_TEST(world.nodes[0].done);
}

BOOST_AUTO_TEST_CASE(AnEvaluationRunsForwardOnlyInMicroBatchesOfItsOwn) {
  World world(schedule("zb-v", 2, 3, 2), 5);
  Work test = evaluation(20, 10);
  for (int again = 0; again < 2; ++again) {  // of the same step: nothing of the first is taken for the second
    test.number = 10 + static_cast<uint64_t>(again);
    world.begin(test);
    world.run(0.1);
    for (const World::Node& node : world.nodes) {
      BOOST_TEST(node.ran.size() == 6u);  // 3 micro-batches of up to 4 samples, 2 chunks
      for (const Action& action : node.ran) BOOST_TEST((action.kind == ActionKind::forward));
      BOOST_TEST(node.gradients.empty());
    }
  }
  world.begin(train(0));
  world.run();
}

BOOST_AUTO_TEST_CASE(InAnEvaluationAStageOfTwoChunksDoesNotWaitForOneMicroBatchAtATime) {
  for (const Kind& kind : kKinds) {
    const auto plan = schedule(kind.name, 2, 4, kind.chunks);
    World world(plan, 1);
    Work test = evaluation(0, 4 * 30);
    world.begin(test);
    while (!world.nodes[0].tasks.empty()) world.compute(0);
    BOOST_TEST(world.nodes[0].ran.size() == 4u, kind.name);  // nothing has come back
    for (const Action& action : world.nodes[0].ran) BOOST_TEST(action.chunk == 0u);
    world.run();
    for (uint32_t stage = 0; stage < 2; ++stage) BOOST_TEST(world.nodes[stage].ran.size() == 30u * kind.chunks);
  }
}

BOOST_AUTO_TEST_CASE(ATiedLayersGradientIsCompleteWithTheOtherStagesPart) {
  // The last chunk reads layer 0 as well.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    World world(schedule("1f1b", 3, 4), seed, {{0, 2}});
    for (Step step = 0; step < 2; ++step) {
      world.begin(train(step));
      world.run(0.2);
      const World::Node& owner = world.nodes[0];
      const auto at = std::ranges::find(owner.gradients, LayerId{0}) - owner.gradients.begin();
      BOOST_REQUIRE(at < std::ssize(owner.gradients));
      BOOST_TEST(owner.others[static_cast<size_t>(at)] == 201);  // what the last stage gave for layer 0
      BOOST_TEST(world.nodes[2].gradients.size() == 2u);         // its own alone
    }
  }
}

BOOST_AUTO_TEST_CASE(AnAllReducedTiedLayersGradientIsCompleteOnBothStagesInTheSameOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    World world(schedule("1f1b", 3, 4), seed, {{0, 2}}, false, Mode::all_reduce);
    for (Step step = 0; step < 2; ++step) {
      world.begin(train(step));
      world.run(0.2);
      BOOST_TEST(world.nodes[1].gradients.size() == 2u);
      for (const uint32_t stage : {0u, 2u}) {
        const World::Node& node = world.nodes[stage];
        const auto at = static_cast<size_t>(std::ranges::find(node.gradients, LayerId{0}) - node.gradients.begin());
        BOOST_REQUIRE(at < node.gradients.size());
        BOOST_TEST(node.sums[at] == 1);
        BOOST_TEST(node.others[at] == 201);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(ATiedLayerWithinAStageIsOneSum) {
  World world(schedule("zb-v", 2, 2, 2), 1, {{0, 3}});  // chunks 0 and 3 are both on stage 0
  world.begin(train(0));
  world.run();
  BOOST_TEST(std::ranges::count(world.nodes[0].gradients, LayerId{0}) == 1);
  for (double other : world.nodes[0].others) BOOST_TEST(other == 0);
}

BOOST_AUTO_TEST_CASE(AMicroBatchMayBeEmpty) {
  World world(schedule("1f1b", 2, 4), 1);
  world.begin(train(0, 2));  // four micro-batches of two samples
  world.run();
  BOOST_TEST(world.nodes[1].gradients.size() == 2u);
}

BOOST_AUTO_TEST_CASE(OtherSamplesThanTheStagesOwnAreAFault) {
  World world(schedule("1f1b", 2, 2), 1);
  world.begin(train(0));
  Activation wrong{Activation::Kind::forward, 0, 0, 1, {0, 4, 8}, {one(1)}};
  world.take(1, world.nodes[1].core->handle({{Role::worker, 0, 1}, {Role::worker, 1, 1}, 1, wrong}));
  BOOST_REQUIRE(world.faults.size() == 1u);
  BOOST_TEST(
      world.faults[0] ==
      "worker 1 (stage 1 of replica 0): in step 0 the outputs of micro-batch 0 for chunk 1 are of samples [4, +8) of "
      "epoch 0, expected [0, +8) of epoch 0");
}

BOOST_AUTO_TEST_CASE(AChunkOfAnotherStageAndAMicroBatchTooManyAreFaults) {
  World world(schedule("1f1b", 2, 2), 1);
  world.begin(train(0));
  for (const auto& [chunk, micro] : {std::pair{0u, 0u}, std::pair{9u, 0u}, std::pair{1u, 7u}}) {
    world.faults.clear();
    Activation wrong{Activation::Kind::forward, 0, micro, chunk, {0, 0, 8}, {one(1)}};
    world.take(1, world.nodes[1].core->handle({{Role::worker, 0, 1}, {Role::worker, 1, 1}, 1, wrong}));
    BOOST_TEST(world.faults.size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(AStallSaysWhoIsWaitedForAndWhatCameLast) {
  World world(schedule("1f1b", 2, 2), 1);
  world.begin(train(3));
  while (!world.nodes[0].tasks.empty()) world.compute(0);
  StageCore& waiting = *world.nodes[0].core;
  BOOST_TEST(waiting.watch(5000).send.empty());
  BOOST_TEST(waiting.watch(5900).send.empty());
  world.take(0, waiting.watch(6100));
  BOOST_REQUIRE(world.faults.size() == 1u);
  BOOST_TEST(
      world.faults[0] ==
      "worker 0 (stage 0 of replica 0): in step 3 it has waited 1 s for gradients of micro-batch 0 from worker 1 "
      "(stage 1 of replica 0); what it did last: begins step 3, F0, F1");
  BOOST_TEST(waiting.watch(9000).send.empty());  // once
}

BOOST_AUTO_TEST_CASE(WithoutATimeOutAStageWaitsForEver) {
  World world(schedule("1f1b", 2, 2), 1, {}, false, Mode::sync, {}, {}, 0);
  world.begin(train(0));
  while (!world.nodes[0].tasks.empty()) world.compute(0);
  world.nodes[0].core->watch(0);
  BOOST_TEST(world.nodes[0].core->waits_for() != "");
  BOOST_TEST(world.nodes[0].core->watch(1'000'000'000).send.empty());
}

BOOST_AUTO_TEST_CASE(AStageAtWorkDoesNotStall) {
  World world(schedule("1f1b", 2, 2), 1);
  world.begin(train(0));
  StageCore& busy = *world.nodes[0].core;
  busy.watch(0);
  BOOST_TEST(busy.watch(100000).send.empty());
}

// ---- without a flush -----------------------------------------------------------------------------------------------

namespace {

std::shared_ptr<const Schedule> one_step(const std::string& name, uint32_t stages, uint32_t micro_batches) {
  auto made = make_schedule({.name = name,
                             .stages = stages,
                             .micro_batches = micro_batches,
                             .accumulate = name == "pipedream" ? 0 : micro_batches});
  return std::make_shared<const Schedule>(made.value());
}

/// Every stage begins a step as soon as the weights that it reads have been made.
void begin_what_can(World& world, std::vector<Step>& begun, Step steps) {
  for (uint32_t stage = 0; stage < world.nodes.size(); ++stage)
    while (begun[stage] < steps &&
           begun[stage] - world.nodes[stage].works_done <= static_cast<Step>(weight_lag(*world.plan, stage)))
      world.take(stage, world.nodes[stage].core->begin(train(begun[stage]++)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(StepsFollowEachOtherWithoutAFlushOverANetworkThatLosesAndDoubles) {
  uint64_t seed = 0;
  constexpr Step kSteps = 6;
  for (const char* name : {"pipedream", "pipedream-2bw"})
    for (uint32_t stages = 1; stages <= 4; ++stages)
      for (uint32_t micro_batches = 1; micro_batches <= (std::string(name) == "pipedream" ? 1u : 5u); ++micro_batches) {
        World world(one_step(name, stages, micro_batches), ++seed);
        std::vector<Step> begun(stages, 0);
        const auto all_done = [&] {
          return std::ranges::all_of(world.nodes, [](const World::Node& node) { return node.works_done == kSteps; });
        };
        for (int events = 0; events < 100'000 && !all_done(); ++events) {
          begin_what_can(world, begun, kSteps);
          std::vector<uint32_t> busy;
          for (uint32_t stage = 0; stage < stages; ++stage)
            if (!world.nodes[stage].tasks.empty()) busy.push_back(stage);
          if (world.random.chance(0.02))
            for (uint32_t stage = 0; stage < stages; ++stage) world.take(stage, world.nodes[stage].core->tick());
          if (!world.network.empty() && (busy.empty() || world.random.chance(0.5))) world.deliver(0.1);
          else if (!busy.empty()) world.compute(busy[world.random.below(busy.size())]);
          BOOST_REQUIRE_MESSAGE(world.faults.empty(), world.faults.front());
        }
        for (uint32_t stage = 0; stage < stages; ++stage) {
          const World::Node& node = world.nodes[stage];
          BOOST_TEST(node.works_done == kSteps, name << ": " << node.core->waits_for());
          BOOST_TEST(node.kept_most <= stages - stage);
          // Forwards of a step behind all of the step before, and so with backwards.
          for (const bool forward : {true, false}) {
            Step last = 0;
            for (size_t i = 0; i < node.ran.size(); ++i) {
              if ((node.ran[i].kind == ActionKind::forward) != forward) continue;
              BOOST_TEST(node.steps[i] >= last);
              last = node.steps[i];
            }
          }
        }
      }
}

// Where nothing comes late, the order is the schedule's own: the list of many steps that `troupe plan` draws.
BOOST_AUTO_TEST_CASE(WithoutDelaysStagesRunTheSchedulesOwnList) {
  constexpr uint32_t kSteps = 5;
  for (const auto& [name, micro_batches] : {std::pair{"pipedream", 1u}, std::pair{"pipedream-2bw", 4u}}) {
    const auto whole = make_schedule({.name = name,
                                      .stages = 3,
                                      .micro_batches = kSteps * micro_batches,
                                      .accumulate = micro_batches == 1 ? 0 : micro_batches});
    for (uint32_t stage = 0; stage < 3; ++stage) {
      World world(one_step(name, 3, micro_batches), 1);
      World::Node& node = world.nodes[stage];
      std::vector<Step> begun(3, 0);
      const auto lag = static_cast<Step>(weight_lag(*world.plan, stage));
      const auto begin = [&] {
        while (begun[stage] < kSteps && begun[stage] - node.works_done <= lag)
          world.take(stage, node.core->begin(train(begun[stage]++)));
      };
      const auto hear = [&](Activation::Kind kind, uint32_t from, Step step, uint32_t micro) {
        const Work work = train(step);
        std::vector<int64_t> counts(micro_batches, 16 / micro_batches);
        const SampleRange samples{0, work.range.begin + micro * counts[0], counts[0]};
        const Tensor value = one(kind == Activation::Kind::forward ? activation(micro, from) : gradient(micro, from));
        world.take(stage, node.core->handle({{Role::worker, from, 1}, {Role::worker, stage, 1}, 1,
                                             Activation{kind, step, micro, stage, samples, {value}}}));
      };
      // Inputs are there as early as the stage before can have made them; a gradient comes when the stages behind can:
      // the pipeline's depth later.
      size_t fed = 0;
      const auto forwards = [&] {
        return static_cast<size_t>(std::ranges::count(node.ran, ActionKind::forward, &Action::kind));
      };
      const auto feed = [&] {
        for (; stage > 0 && fed < kSteps * micro_batches && fed < forwards() + 4 - stage; ++fed)
          hear(Activation::Kind::forward, stage - 1, static_cast<Step>(fed / micro_batches),
               static_cast<uint32_t>(fed % micro_batches));
      };
      feed();
      begin();
      size_t answered = 0;
      while (true) {
        while (!node.tasks.empty()) world.compute(stage), begin(), feed();
        if (stage == 2 || answered == forwards()) break;
        hear(Activation::Kind::backward, stage + 1, static_cast<Step>(answered / micro_batches),
             static_cast<uint32_t>(answered % micro_batches));
        ++answered;
      }
      std::vector<Action> listed, ran;
      for (const Action& action : whole->actions[stage])
        if (action.kind <= ActionKind::backward_weight) listed.push_back(action);
      for (size_t i = 0; i < node.ran.size(); ++i) {
        ran.push_back(node.ran[i]);
        ran.back().micro_batch += static_cast<uint32_t>(node.steps[i]) * micro_batches;
      }
      BOOST_TEST((ran == listed), name << ", stage " << stage);
    }
  }
}

// ---- what peers send ------------------------------------------------------------------------------------------------

namespace {

Envelope sent(WorkerId from, WorkerId to, Activation activation) {
  return {{Role::worker, from, 1}, {Role::worker, to, 1}, 1, std::move(activation)};
}

Activation outputs(Step step, uint32_t micro, uint32_t chunk, Tensor tensor = one(1)) {
  return {Activation::Kind::forward, step, micro, chunk, {0, micro * 4, 4}, {std::move(tensor)}};
}

// Stages begin their next step as soon as their own is over, whatever the others do. No acknowledgement arrives where
// `deaf`.
void run_steps(World& world, Step steps, double loss, bool deaf = false) {
  std::vector<Step> begun(world.nodes.size(), 0);
  const auto all_done = [&] {
    return std::ranges::all_of(world.nodes, [&](const World::Node& node) { return node.works_done == steps; });
  };
  for (int events = 0; events < 400'000 && !all_done(); ++events) {
    std::vector<uint32_t> busy;
    for (uint32_t stage = 0; stage < world.nodes.size(); ++stage) {
      if (begun[stage] < steps && world.nodes[stage].works_done == begun[stage])
        world.take(stage, world.nodes[stage].core->begin(train(begun[stage]++)));
      if (!world.nodes[stage].tasks.empty()) busy.push_back(stage);
      if (loss > 0 && world.random.chance(0.005)) world.take(stage, world.nodes[stage].core->tick());
    }
    if (deaf)
      std::erase_if(world.network, [](const Envelope& e) { return std::holds_alternative<ActivationAck>(e.body); });
    // One stage is much slower than the others.
    if (!busy.empty() && (world.network.empty() || world.random.chance(0.3))) {
      const uint32_t stage = busy[world.random.below(busy.size())];
      if (stage != 1 || busy.size() == 1 || world.random.chance(0.1)) world.compute(stage);
    } else if (!world.network.empty()) {
      world.deliver(loss);
    }
    BOOST_REQUIRE_MESSAGE(world.faults.empty(), world.faults.front());
  }
  for (const World::Node& node : world.nodes)
    BOOST_REQUIRE_MESSAGE(node.works_done == steps, world.plan->name << ": " << node.core->waits_for());
}

}  // namespace

BOOST_AUTO_TEST_CASE(NoStageSendsMoreThanTheNextExpects) {
  uint64_t seed = 0;
  for (const Kind& kind : kKinds)
    for (uint32_t stages = 2; stages <= 4; ++stages)
      for (const uint32_t micro_batches : {stages, 2 * stages}) {
        World world(schedule(kind.name, stages, micro_batches, kind.chunks), ++seed);
        run_steps(world, 4, 0.1);
      }
}

BOOST_AUTO_TEST_CASE(OutputsBeyondWhatTheScheduleHoldsAreAFaultThatNamesTheirSender) {
  // What waits at stage 1 and at stage 2 at most.
  for (const auto& [name, most] : {std::pair{"gpipe", std::pair{8u, 8u}}, std::pair{"1f1b", std::pair{3u, 2u}},
                                   std::pair{"zb-h2", std::pair{5u, 3u}}, std::pair{"sequential", std::pair{1u, 1u}}})
    for (const uint32_t stage : {1u, 2u}) {
      World world(schedule(name, 3, 8), 1);
      const uint32_t room = stage == 1 ? most.first : most.second;
      for (uint32_t n = 0; n <= room; ++n) {
        BOOST_REQUIRE_MESSAGE(world.faults.empty(), name << ": " << world.faults.front());
        world.take(stage, world.nodes[stage].core->handle(sent(stage - 1, stage, outputs(n / 8, n % 8, stage))));
      }
      BOOST_REQUIRE(world.faults.size() == 1u);
      BOOST_TEST(world.faults[0] == cat("worker ", stage, " (stage ", stage, " of replica 0): worker ", stage - 1,
                                        " (stage ", stage - 1, " of replica 0) sent outputs of micro-batch ", room % 8,
                                        " for chunk ", stage, " in step ", room / 8, " while ", room,
                                        " that it sent wait here, and the schedule lets it be no further ahead"));
    }
}

BOOST_AUTO_TEST_CASE(OutputsOfAnAsynchronousScheduleWaitUpToTheStagesBehind) {
  World world(one_step("pipedream", 3, 1), 1);
  for (Step step = 0; step < 3; ++step)
    world.take(1, world.nodes[1].core->handle(sent(0, 1, outputs(step, 0, 1))));
  BOOST_TEST(world.faults.empty());
  world.take(1, world.nodes[1].core->handle(sent(0, 1, outputs(3, 0, 1))));
  BOOST_TEST(world.faults.size() == 1u);
}

BOOST_AUTO_TEST_CASE(WhatComesFromTheWrongStageOrReplicaIsAFault) {
  for (const auto& [from, kind] :
       {std::pair{2u, Activation::Kind::forward}, std::pair{0u, Activation::Kind::backward},
        std::pair{3u, Activation::Kind::forward}, std::pair{1u, Activation::Kind::forward}}) {
    World world(schedule("1f1b", 3, 4), 1);
    world.begin(train(0));
    Activation activation = outputs(0, 0, 1);
    activation.kind = kind;
    world.take(1, world.nodes[1].core->handle(sent(from, 1, activation)));
    BOOST_REQUIRE(world.faults.size() == 1u);
    const uint32_t expected = kind == Activation::Kind::forward ? 0 : 2;
    BOOST_TEST(world.faults[0].find(cat("which takes them from stage ", expected, " of its own replica")) !=
                   std::string::npos,
               world.faults[0]);
    BOOST_TEST(world.faults[0].find(cat("worker ", from, " (stage ", from % 3)) != std::string::npos, world.faults[0]);
  }
}

BOOST_AUTO_TEST_CASE(AGradientOfWhatNeverWentForwardIsAFault) {
  for (const Step step : {1, 7, -1, -5}) {
    World world(schedule("1f1b", 2, 4), 1);
    world.begin(train(0));
    Activation activation = outputs(step, 0, 0);
    activation.kind = Activation::Kind::backward;
    world.take(0, world.nodes[0].core->handle(sent(1, 0, activation)));
    BOOST_REQUIRE(world.faults.size() == 1u);
    BOOST_TEST(world.faults[0].find(cat("in step ", step, ", in which nothing has gone forward here")) !=
                   std::string::npos,
               world.faults[0]);
  }
}

BOOST_AUTO_TEST_CASE(ALayerThatIsNotTiedHereTakesNoPartFromAnotherStage) {
  for (const uint32_t layer : {1u, 5u, 99u}) {
    World world(schedule("1f1b", 3, 4), 1, {{0, 2}});
    world.begin(train(0));
    Activation activation = outputs(0, layer, 0);
    activation.kind = Activation::Kind::tied;
    world.take(0, world.nodes[0].core->handle(sent(2, 0, activation)));
    BOOST_REQUIRE(world.faults.size() == 1u);
    BOOST_TEST(world.faults[0].find("takes nothing of that kind") != std::string::npos, world.faults[0]);
  }
}

BOOST_AUTO_TEST_CASE(AnActivationOfAnotherShapeOrTypeIsAFaultBeforeItIsComputed) {
  const Tensor right = Tensor::zeros({4, 6}), wide = Tensor::zeros({4, 7}), long_one = Tensor::zeros({5, 6});
  const Tensor flat = Tensor::zeros({24}), half = Tensor::zeros({4, 6}, DType::f16);
  const std::string of = "worker 0 (stage 0 of replica 0) sent outputs of micro-batch 0 for chunk 1 in step 0 ";
  const std::string at = "worker 1 (stage 1 of replica 0): " + of;
  for (const auto& [tensors, said] : std::vector<std::pair<std::vector<Tensor>, std::string>>{
           {{right}, ""},
           {{wide}, at + "of shape [4, 7], expected [4, 6] for its 4 samples"},
           {{long_one}, at + "of shape [5, 6], expected [4, 6] for its 4 samples"},
           {{flat}, at + "of shape [24], expected [4, 6] for its 4 samples"},
           {{half}, at + "as F16, expected F32"},
           {{}, at + "as 0 tensors, expected one"},
           {{right, right}, at + "as 2 tensors, expected one"}}) {
    World world(schedule("1f1b", 2, 4), 1, {}, false, Mode::sync, {{9}, {6}}, DType::f32);
    world.begin(train(0));
    Activation activation = outputs(0, 0, 1);
    activation.tensors = tensors;
    world.take(1, world.nodes[1].core->handle(sent(0, 1, activation)));
    BOOST_TEST((world.faults.empty() ? "" : world.faults[0]) == said);
    BOOST_TEST(world.nodes[1].tasks.empty() == !said.empty());
  }
}

BOOST_AUTO_TEST_CASE(AGradientHasTheShapeOfTheOutputsThatItIsOf) {
  for (const int64_t width : {6, 9}) {
    World world(schedule("1f1b", 2, 4), 1, {}, false, Mode::sync, {{9}, {6}}, DType::f32);
    world.begin(train(0));
    Activation activation = outputs(0, 0, 0, Tensor::zeros({4, width}));
    activation.kind = Activation::Kind::backward;
    world.take(0, world.nodes[0].core->handle(sent(1, 0, activation)));
    BOOST_TEST(world.faults.size() == (width == 6 ? 0u : 1u));
  }
}

BOOST_AUTO_TEST_CASE(MicroBatchesMayDifferInShapeWhereNoShapeIsGiven) {
  World world(schedule("1f1b", 3, 4), 1);
  world.lengths = {1, 3, 2, 5};
  for (Step step = 0; step < 2; ++step) {
    world.begin(train(step));
    world.run(0.1);
  }
}

BOOST_AUTO_TEST_CASE(WhatIsNeverAcknowledgedIsForgottenWhenTheStepBehindItIsOver) {
  World world(schedule("1f1b", 3, 4), 1);
  run_steps(world, 12, 0, true);
  for (const World::Node& node : world.nodes) BOOST_TEST(node.core->tick().send.size() <= 2u * 4);
}

BOOST_AUTO_TEST_CASE(AnEvaluationIsAFewMicroBatchesAheadOfTheNextStageAtMost) {
  World world(schedule("1f1b", 2, 4), 1);
  Work test = evaluation(0, 4 * 20);
  world.begin(test);
  const auto alone = [&](uint32_t stage) {
    while (!world.nodes[stage].tasks.empty()) world.compute(stage);
  };
  const auto deliver_all = [&] {
    while (!world.network.empty()) world.deliver(0);
  };
  alone(0);
  BOOST_TEST(world.nodes[0].ran.size() == 4u);
  BOOST_TEST(world.nodes[0].core->waits_for() ==
             "worker 1 (stage 1 of replica 0) to take outputs of earlier micro-batches than 4");
  deliver_all();  // two of them are at stage 1's executor
  alone(0);
  deliver_all();
  alone(0);
  BOOST_TEST(world.nodes[0].ran.size() == 6u);
  // One more than that is not waited with.
  Activation more = outputs(-1, 6, 1);
  world.take(1, world.nodes[1].core->handle(sent(0, 1, more)));
  BOOST_REQUIRE(world.faults.size() == 1u);
  BOOST_TEST(world.faults[0].find("while 4 that it sent wait here") != std::string::npos, world.faults[0]);
  world.faults.clear();
}

// A stage has done its part of one evaluation and begins the next, while the stage behind it still has the first to do.
BOOST_AUTO_TEST_CASE(WhatWaitsOfOneEvaluationCountsInTheNext) {
  World world(schedule("1f1b", 2, 4), 1);
  Work test = evaluation(0, 4 * 4);
  world.begin(test);
  while (!world.nodes[0].tasks.empty()) world.compute(0);
  BOOST_TEST(world.nodes[0].done);
  world.take(0, world.nodes[0].core->begin(test));
  BOOST_TEST(world.nodes[0].tasks.empty());
  while (!world.network.empty()) world.deliver(0);
  BOOST_TEST(!world.nodes[0].tasks.empty());
  BOOST_TEST(world.faults.empty());
}

// Their acknowledgements were lost. Kept, they would soon be more than may wait.
BOOST_AUTO_TEST_CASE(OutputsOfAnEvaluationThatIsOverAreAcknowledgedAndForgotten) {
  World world(schedule("1f1b", 2, 4), 1);
  Work test = evaluation(0, 4 * 6);
  world.begin(test);
  world.run();
  for (uint32_t micro = 0; micro < 6; ++micro) {
    const auto effects = world.nodes[1].core->handle(sent(0, 1, outputs(-1, micro, 1)));
    BOOST_REQUIRE(effects.send.size() == 1u);
    BOOST_TEST(std::holds_alternative<ActivationAck>(effects.send[0].body));
  }
}

BOOST_AUTO_TEST_CASE(WhatAServerSendsAsOutputsIsAFault) {
  World world(schedule("1f1b", 3, 4), 1);
  world.begin(train(0));
  Envelope envelope = sent(0, 1, outputs(0, 0, 1));
  envelope.from.role = Role::server;
  world.take(1, world.nodes[1].core->handle(envelope));
  BOOST_REQUIRE(world.faults.size() == 1u);
  BOOST_TEST(world.faults[0].find("server 0") != std::string::npos, world.faults[0]);
}

BOOST_AUTO_TEST_CASE(APartOfATiedGradientThatDoesNotFitIsAFault) {
  const SampleRange samples{0, 0, 16}, others{0, 1, 16};
  for (const auto& [range, part, fits] :
       {std::tuple{samples, one(201), true}, std::tuple{others, one(201), false},
        std::tuple{samples, one(201, 2), false}, std::tuple{samples, Tensor::zeros({1}, DType::bf16), false}}) {
    World world(schedule("1f1b", 2, 1), 1, {{0, 1}});
    world.begin(train(0));
    world.take(0, world.nodes[0].core->gradient(1, 0, one(1)));
    Activation activation{Activation::Kind::tied, 0, 0, 0, range, {part}};
    world.take(0, world.nodes[0].core->handle(sent(1, 0, activation)));
    BOOST_TEST(world.faults.size() == (fits ? 0u : 1u));
    if (!fits) BOOST_TEST(world.faults.at(0).find("in the gradient of layer 0") != std::string::npos, world.faults[0]);
  }
}

BOOST_AUTO_TEST_SUITE_END()
