#include <boost/test/unit_test.hpp>

#include <tests/support/coordinator_world.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;
using World = CoordinatorWorld;

BOOST_AUTO_TEST_SUITE(coordinator_core_run)

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

// ---- the beginning ----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ServersAreInvitedBeforeWorkersOnceAllAreThere) {
  World w(kSync);
  w.core = CoordinatorCore::make(w.options).value();
  w.take(w.core->start());
  const auto spawns = w.said<Spawn>();
  BOOST_TEST_REQUIRE(spawns.size() == 4u);
  for (size_t i = 0; i + 1 < spawns.size(); ++i) w.hear(kNode, SpawnAck{spawns[i].who});
  BOOST_TEST(w.told<Membership>().empty());
  w.hear(kNode, SpawnAck{spawns.back().who});
  BOOST_TEST((w.told<Membership>() == std::vector{w.server(0), w.server(1)}));
  w.hear(w.server(0), MembershipAck{});
  w.hear(w.server(0), MembershipAck{});
  BOOST_TEST(w.told<Membership>().empty());
  w.hear(w.server(1), MembershipAck{});
  BOOST_TEST((w.told<Membership>() == std::vector{w.worker(0), w.worker(1)}));
}

BOOST_AUTO_TEST_CASE(NobodyIsDealtWorkBeforeAllHaveJoined) {
  World w(kAsync);
  w.core = CoordinatorCore::make(w.options).value();
  w.take(w.core->start());
  for (const Spawn& spawn : w.said<Spawn>()) w.hear(kNode, SpawnAck{spawn.who});
  BOOST_TEST(!w.ask(0, 1));
  for (ServerId s = 0; s < 2; ++s) w.hear(w.server(s), MembershipAck{});
  w.hear(w.worker(0), MembershipAck{});
  BOOST_TEST(w.said<Work>().empty());
  w.hear(w.worker(1), MembershipAck{});
  BOOST_TEST(w.said<Work>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(WhatIsNotAcknowledgedIsSaidAgain) {
  World w(kSync);
  w.core = CoordinatorCore::make(w.options).value();
  w.take(w.core->start());
  for (const Spawn& spawn : w.said<Spawn>())
    if (spawn.who.index == 0) w.hear(kNode, SpawnAck{spawn.who});
  w.take(w.core->tick());
  const auto again = w.said<Spawn>();
  BOOST_TEST(again.size() == 2u);
  for (const Spawn& spawn : again) w.hear(kNode, SpawnAck{spawn.who});
  w.hear(w.server(0), MembershipAck{});
  w.told<Membership>();
  w.take(w.core->tick());
  BOOST_TEST((w.told<Membership>() == std::vector{w.server(1)}));
}

BOOST_AUTO_TEST_CASE(SenselessOptionsAreErrors) {
  const auto error_of = [](auto change) {
    World w(kSync);
    change(w.options);
    const auto made = CoordinatorCore::make(w.options);
    return made ? "(no error)" : made.error().message;
  };
  BOOST_TEST(holds(error_of([](auto& o) { o.layout.servers = 0; }), "parallel.servers is 0"));
  BOOST_TEST(holds(error_of([](auto& o) { o.layers.clear(), o.policies.clear(); }), "no layer"));
  BOOST_TEST(holds(error_of([](auto& o) { o.dealer.worker_batch = {2, 3}; }), "5"));
  BOOST_TEST(holds(error_of([](auto& o) { o.changes = {{7, {{"conv*", kAsync}}}}; }), "change at step 7"));
}

// ---- work -------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(WorkIsDealtOnceAndSaidAgainWhenAskedForAgain) {
  World w(kAsync);
  w.begin();
  const auto first = w.ask(0, 1), again = w.ask(0, 1);
  BOOST_TEST_REQUIRE((first && again));
  BOOST_TEST((again->range == first->range));
  BOOST_TEST(again->number == first->number);
  BOOST_TEST(!w.ask(0, 7));
  const auto next = w.ask(0, 2);
  BOOST_TEST_REQUIRE(bool(next));
  BOOST_TEST((next->range == SampleRange{0, 2, 2}));
}

BOOST_AUTO_TEST_CASE(WorkDoneTwiceCountsOnceAndIsAcknowledgedTwice) {
  World w(kSync);
  w.begin();
  const Work work = *w.ask(0, 1), other = *w.ask(1, 1);
  w.finish(0, work);
  w.finish(0, work);
  BOOST_TEST(w.said<WorkDoneAck>().size() == 2u);
  BOOST_TEST(w.all.steps.empty());
  w.finish(1, other);
  BOOST_TEST_REQUIRE(w.all.steps.size() == 1u);
  BOOST_TEST(w.all.steps[0].stats.samples == 4);
  BOOST_TEST(w.all.steps[0].step == 1);
  BOOST_TEST(!w.ask(0, 1));  // done: its answer is known
}

BOOST_AUTO_TEST_CASE(UnderSspAWorkerWithoutSamplesTakesStepsWithoutThem) {
  World w(kSsp);
  w.begin();
  const Work slow = *w.ask(1, 1);
  uint64_t number = 1;
  std::vector<Work> fast;
  while (const auto work = w.ask(0, number++)) fast.push_back(*work);
  BOOST_TEST(fast.size() == 9u);
  // All samples are dealt; worker 1 is eight steps behind, and must come along for reads to be answered.
  for (Step step = 1; step < 9; ++step) {
    const auto idle = w.ask(1, static_cast<uint64_t>(step + 1));
    BOOST_TEST_REQUIRE(bool(idle));
    BOOST_TEST(idle->step == step);
    BOOST_TEST(idle->range.count == 0);
  }
  BOOST_TEST(!w.ask(1, 10));
  BOOST_TEST(slow.range.count == 2);
}

BOOST_AUTO_TEST_CASE(ARecordedOrderIsKept) {
  World w(kAsync);
  w.order = {{1, false}, {0, false}, {1, false}};
  w.begin();
  BOOST_TEST(!w.ask(0, 1));
  w.hear(w.worker(1), WorkRequest{1});
  auto dealt = w.said<Work>();  // worker 1 its piece, and worker 0 behind it
  BOOST_TEST_REQUIRE(dealt.size() == 2u);
  BOOST_TEST((dealt[0].range == SampleRange{0, 0, 2}));
  BOOST_TEST((dealt[1].range == SampleRange{0, 2, 2}));
  BOOST_TEST(!w.ask(0, 2));
  BOOST_TEST((w.ask(1, 2)->range == SampleRange{0, 4, 2}));
}

// ---- boundaries -------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ACheckpointIsTakenWhenEveryStepBeforeItIsDone) {
  World w(kSync);
  w.options.checkpoint_every_steps = 1;
  w.begin();
  const Work first = *w.ask(0, 1), second = *w.ask(1, 1);
  w.finish(0, first);
  BOOST_TEST(!w.ask(0, 2));  // beyond the boundary
  BOOST_TEST(!w.ask(1, 2));
  BOOST_TEST(w.said<Snapshot>().empty());
  w.finish(1, second);
  BOOST_TEST((w.told<Snapshot>() == std::vector{w.server(0), w.server(1)}));
  BOOST_TEST(w.said<Work>().empty());
  w.hear(w.server(0), SnapshotReply{1, {{1, Tensor::zeros({32}), {}, 1}}});
  w.hear(w.server(0), SnapshotReply{1, {{1, Tensor::zeros({32}), {}, 1}}});
  w.take(w.core->tick());
  BOOST_TEST((w.told<Snapshot>() == std::vector{w.server(1)}));
  w.hear(w.server(1), SnapshotReply{1, {{0, Tensor::zeros({32}), {}, 1}}});
  BOOST_TEST_REQUIRE(w.all.checkpoints.size() == 1u);
  BOOST_TEST(w.all.checkpoints[0].step == 1);
  BOOST_TEST(w.all.checkpoints[0].dealer.begin == 4);
  BOOST_TEST(w.all.checkpoints[0].slices[0].slice == 0u);
  BOOST_TEST(w.said<Work>().size() == 2u);  // training goes on while it is written
}

BOOST_AUTO_TEST_CASE(WorkSaysWhichStepBeganWithNothingUnderWay) {
  World w(kSync);
  w.options.checkpoint_every_steps = 2;
  w.begin();
  for (uint64_t number = 1; number <= 2; ++number)
    for (const WorkerId worker : {0u, 1u}) {
      const Work work = *w.ask(worker, number);
      BOOST_TEST(work.since == 0);
      w.finish(worker, work);
    }
  for (const WorkerId worker : {0u, 1u}) BOOST_TEST(!w.ask(worker, 3));
  for (ServerId s = 0; s < 2; ++s) w.hear(w.server(s), SnapshotReply{1, {{1 - s, Tensor::zeros({32}), {}, 1}}});
  const std::vector<Work> behind = w.said<Work>();
  BOOST_TEST_REQUIRE(behind.size() == 2u);
  for (const Work& work : behind) BOOST_TEST(work.since == 2);
  // One who is started again begins with what it had not completed.
  w.finish(0, behind[0]);
  BOOST_TEST(w.ask(0, 4)->since == 2);
  w.replace(w.worker(0));
  w.join();
  const Work again = *w.ask(0, 1);
  BOOST_TEST(again.step == 3);
  BOOST_TEST(again.since == 3);
}

BOOST_AUTO_TEST_CASE(CheckpointsComeAtTheirStepThoughEpochsEndWithAShortBatch) {
  World w(kSync);
  w.options.dealer = {.train_samples = 6, .epochs = 3, .global_batch = 4, .worker_batch = {2, 2}};
  w.options.checkpoint_every_steps = 2;
  w.begin();
  BOOST_TEST(w.take_steps() == 3u);
  w.answer_snapshots();
  BOOST_TEST_REQUIRE(w.all.checkpoints.size() == 1u);
  BOOST_TEST(w.all.checkpoints[0].step == 2);
}

BOOST_AUTO_TEST_CASE(AResumedRunCountsOnFromItsStepThoughEpochsEndWithAShortBatch) {
  World w(kSync);
  w.options.dealer = {.train_samples = 6, .epochs = 3, .global_batch = 4, .worker_batch = {2, 2}};
  w.options.resume = DealerState{.train_samples = 6, .epoch = 1, .step = 2};
  w.begin();
  BOOST_TEST(w.core->status().step == 2);
}

// So that a journal without it leads to the same coordinator.
BOOST_AUTO_TEST_CASE(WhatOnlyAsksChangesNothing) {
  World w(kSync);
  const Endpoint client{Role::client, 0, 3};
  const auto ask = [&](const Message& question) {
    const Envelope envelope{client, kCoordinator, 0, question};
    BOOST_TEST_REQUIRE(w.core->only_asks(envelope));
    const auto before = w.core->image();
    w.core->handle(envelope);
    BOOST_TEST((w.core->image() == before));
  };
  w.options.checkpoint_every_steps = 2;
  w.begin();
  ask(StatusRequest{});
  w.take_steps();  // to the boundary
  ask(StatusRequest{});
  ask(WorkRequest{1});  // which has no work
  const Envelope stop{client, kCoordinator, 0, StopRequest{}};
  BOOST_TEST(!w.core->only_asks(stop));
  w.take(w.core->handle(stop));
  ask(StopRequest{});
  BOOST_TEST(!w.core->only_asks({w.worker(0), kCoordinator, 0, StatusRequest{}}));
}

BOOST_AUTO_TEST_CASE(ReducedLayersAreBroughtHomeBeforeACheckpoint) {
  World w(kReduced);
  w.options.checkpoint_every_steps = 2;
  w.begin();
  w.take_steps();
  const Work upload = *w.ask(0, 3);
  BOOST_TEST((upload.kind == Work::Kind::upload));
  BOOST_TEST(w.said<Snapshot>().empty());
  w.finish(0, upload);
  BOOST_TEST(w.said<Snapshot>().size() == 2u);
}

BOOST_AUTO_TEST_CASE(TestSamplesAreSharedAtTheEndOfAnEpoch) {
  World w(kSync);
  w.options.dealer.epochs = 2;
  w.options.evaluate_every_epochs = 1;
  w.options.test_samples = 7;
  w.begin();
  // take_steps ends where both are dealt evaluations: the sixth request.
  for (uint64_t number = 1; number <= 5; ++number) {
    const Work a = *w.ask(0, number), b = *w.ask(1, number);
    w.finish(0, a);
    w.finish(1, b);
  }
  const Work a = *w.ask(0, 6);
  const auto b = w.ask(1, 6);
  // The boundary is there only once both have asked: the first answer came with the second question.
  const Work mine = a.kind == Work::Kind::evaluate ? a : *w.ask(0, 6);
  BOOST_TEST((mine.kind == Work::Kind::evaluate));
  BOOST_TEST((mine.range == SampleRange{0, 0, 4}));
  BOOST_TEST((b->range == SampleRange{0, 4, 3}));
  w.finish(0, mine);
  BOOST_TEST(w.all.evaluations.empty());
  w.finish(1, *b);
  BOOST_TEST_REQUIRE(w.all.evaluations.size() == 1u);
  BOOST_TEST(w.all.evaluations[0].stats.samples == 7);
  BOOST_TEST(w.all.evaluations[0].step == 5);
  BOOST_TEST(w.all.evaluations[0].epoch == 1);
  BOOST_TEST((w.ask(0, 7)->kind == Work::Kind::train));
}

BOOST_AUTO_TEST_CASE(PoliciesChangeAtTheirStepUnderANewGeneration) {
  World w(kSync);
  w.options.changes = {{2, {{"fc1", kAsync}, {"*", kSync}}}};
  w.begin();
  w.take_steps();
  BOOST_TEST(w.all.steps.size() == 2u);
  const Membership& membership = w.core->membership();
  BOOST_TEST(membership.generation == 2u);
  BOOST_TEST((membership.layout->policies == std::vector{kAsync, kSync}));
  BOOST_TEST((membership.rebase == Step{2}));
  BOOST_TEST(w.all.events.empty());
  BOOST_TEST_REQUIRE(w.all.news.size() == 1u);
  BOOST_TEST(w.all.news[0] == "step 2: layer fc1 goes from sync to async");
  BOOST_TEST(w.said<Work>().empty());
  w.join();
  const auto work = w.said<Work>();
  BOOST_TEST_REQUIRE(work.size() == 2u);
  BOOST_TEST(work[0].step == 2);
  BOOST_TEST(!w.core->membership().rebase);
}

BOOST_AUTO_TEST_CASE(AStoppedRunFinishesTheStepsThatHaveBegunAndSavesThem) {
  World w(kSync);
  w.begin();
  const Work a = *w.ask(0, 1);
  w.take(w.core->stop());
  const Work b = *w.ask(1, 1);  // its part of the step that the other has begun
  BOOST_TEST(b.step == a.step);
  w.finish(0, a);
  w.finish(1, b);
  BOOST_TEST(!w.ask(0, 2));
  BOOST_TEST(!w.ask(1, 2));
  w.answer_snapshots();
  BOOST_TEST_REQUIRE(w.all.checkpoints.size() == 1u);
  BOOST_TEST(w.all.checkpoints[0].step == 1);
  BOOST_TEST(!w.all.finished);
  w.take(w.core->checkpoint_written({}));
  w.answer_statistics();
  BOOST_TEST_REQUIRE(bool(w.all.finished));
  BOOST_TEST((w.all.finished->outcome == Outcome::interrupted));
  BOOST_TEST(w.all.finished->steps == 1);
  BOOST_TEST(w.all.finished->checkpoints_written == 1);
}

// ---- the end ----------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ACompletedRunSumsTheServersCountersAndTellsEverybody) {
  World w(kSync);
  w.begin();
  w.take_steps();
  w.answer_statistics();
  BOOST_TEST_REQUIRE(bool(w.all.finished));
  BOOST_TEST((w.all.finished->outcome == Outcome::completed));
  BOOST_TEST(w.all.finished->steps == 5);
  BOOST_TEST(w.all.finished->samples == 20);
  BOOST_TEST(w.all.finished->duplicates_dropped == 2);
  BOOST_TEST(w.all.finished->layers.at(1).pushes == 3);
  BOOST_TEST(w.told<Finish>().size() == 4u);
  w.take(w.core->tick());
  BOOST_TEST(w.told<Finish>().size() == 4u);
  w.hear(w.worker(1), WorkRequest{9});
  BOOST_TEST((w.told<Finish>() == std::vector{w.worker(1)}));
}

BOOST_AUTO_TEST_CASE(ACheckpointThatFailsIsCountedAndTheRunCompletes) {
  World w(kSync);
  w.options.checkpoint_at_end = true;
  w.begin();
  w.take_steps();
  w.answer_snapshots();
  BOOST_TEST(w.said<StatsRequest>().empty());  // the write is awaited
  w.take(w.core->checkpoint_written(fail(ErrorKind::exhausted, "disk is full")));
  w.answer_statistics();
  BOOST_TEST((w.all.finished->outcome == Outcome::completed));
  BOOST_TEST(w.all.finished->checkpoints_failed == 1);
  BOOST_TEST(holds(w.all.events.at(0), "disk is full"));
}

BOOST_AUTO_TEST_CASE(AFaultEndsTheRunWithItsText) {
  World w(kAsync);
  w.begin();
  w.hear(w.worker(1), Fault{"the gradient of layer fc1 holds NaN"});
  BOOST_TEST_REQUIRE(bool(w.all.finished));
  BOOST_TEST((w.all.finished->outcome == Outcome::failed));
  BOOST_TEST(w.all.finished->failure == "the gradient of layer fc1 holds NaN");
  BOOST_TEST(w.told<Finish>().size() == 4u);
  w.all.finished.reset();
  w.hear(w.worker(0), Fault{"another"});
  BOOST_TEST(!w.all.finished);  // the first cause stands
}

// ---- losses -----------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(AReplacedWorkerIsDealtTheSameAgain) {
  for (const Policy& policy : {kSync, kAsync}) {
    World w(policy);
    w.begin();
    const Work before = *w.ask(1, 1);
    const Endpoint old = w.worker(1);
    w.replace(old, "the sensor is gone");
    BOOST_TEST(w.worker(1).incarnation == 2u);
    BOOST_TEST(w.core->membership().generation == 2u);
    w.join();
    const Work after = *w.ask(1, 1);
    BOOST_TEST((after.range == before.range));
    BOOST_TEST(after.step == before.step);
    BOOST_TEST(w.all.events.at(0) == "worker 1 ended: the sensor is gone; starting it again (1 of 1)");
    w.hear(old, WorkRequest{2});
    BOOST_TEST((w.told<Finish>() == std::vector{old}));
    w.hear(kNode, Down{old, "said again"});
    BOOST_TEST(w.said<Spawn>().empty());
    BOOST_TEST(!w.all.finished);
  }
}

BOOST_AUTO_TEST_CASE(MoreLossesThanAllowedFailTheRunWithTheText) {
  World w(kAsync);
  w.begin();
  w.replace(w.worker(1));
  w.join();
  w.hear(kNode, Down{w.worker(0), "out of memory"});
  BOOST_TEST_REQUIRE(bool(w.all.finished));
  BOOST_TEST((w.all.finished->outcome == Outcome::failed));
  BOOST_TEST(holds(w.all.finished->failure, "worker 0 ended: out of memory; 1 of elastic.max_restarts = 1"));
}

BOOST_AUTO_TEST_CASE(ALostWorkerOfAnAllReduceGroupFailsTheRun) {
  World w(kReduced);
  w.begin();
  w.hear(kNode, Down{w.worker(0), "out of memory"});
  BOOST_TEST(holds(w.all.finished->failure, "worker 0 ended: out of memory"));
}

BOOST_AUTO_TEST_CASE(ALostServerFailsTheRunUnlessItsStoreOutlivesIt) {
  for (const bool recovers : {false, true}) {
    World w(kAsync);
    w.options.servers_recover = recovers;
    w.begin();
    w.replace(w.server(1), "out of memory");
    BOOST_TEST(bool(w.all.finished) == !recovers);
    if (recovers)
      BOOST_TEST(w.server(1).incarnation == 2u);
    else
      BOOST_TEST(holds(w.all.finished->failure, "server 1 ended: out of memory"));
  }
}

BOOST_AUTO_TEST_CASE(AServerThatIsLostAgainAndAgainEndsTheRun) {
  World w(kAsync);
  w.options.servers_recover = true;
  w.begin();
  w.replace(w.server(1), "its optimizer threw");
  w.hear(kNode, Down{w.server(1), "its optimizer threw"});
  BOOST_TEST_REQUIRE(bool(w.all.finished));
  BOOST_TEST(w.all.finished->failure ==
             "server 1 ended: its optimizer threw; 1 of elastic.max_restarts = 1 restarts are used, 0 of them for "
             "workers and 1 for servers");
}

BOOST_AUTO_TEST_CASE(LossesOfWorkersAndOfServersCountTogetherWhicheverComesFirst) {
  for (const bool server_first : {false, true}) {
    World w(kAsync);
    w.options.servers_recover = true;
    w.begin();
    w.replace(server_first ? w.server(0) : w.worker(0));
    w.join();
    w.hear(kNode, Down{server_first ? w.worker(0) : w.server(0), "killed"});
    BOOST_TEST_REQUIRE(bool(w.all.finished));
    BOOST_TEST(holds(w.all.finished->failure, " ended: killed; 1 of elastic.max_restarts = 1 restarts are used"));
  }
}

// ---- the group's verdict ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(AVerdictNeedsEveryServersPart) {
  World w(kSync);
  w.options.clip_norm = 2.5;
  w.begin();
  w.hear(w.server(0), Partial{0, 9, true, ""});
  w.hear(w.server(0), Partial{0, 9, true, ""});
  BOOST_TEST(w.said<Verdict>().empty());
  w.hear(w.server(1), Partial{0, 16, true, ""});
  const auto verdicts = w.said<Verdict>();
  BOOST_TEST_REQUIRE(verdicts.size() == 2u);
  BOOST_TEST(verdicts[0].scale == 0.5);  // 2.5 / sqrt(9 + 16)
}

BOOST_AUTO_TEST_CASE(AStepThatIsNotFiniteIsSkippedOrFailsTheRun) {
  for (const bool skip : {false, true}) {
    World w(kSync);
    w.options.clip_norm = 1;
    w.options.skip_non_finite = skip;
    w.begin();
    w.hear(w.server(0), Partial{0, 1, true, ""});
    w.hear(w.server(1), Partial{0, 0, false, "layer fc2, worker 1"});
    BOOST_TEST(bool(w.all.finished) == !skip);
    const auto verdicts = w.said<Verdict>();
    if (skip)
      BOOST_TEST(verdicts.at(0).skip);
    else
      BOOST_TEST(w.all.finished->failure == "step 0: the gradient holds NaN or Inf (layer fc2, worker 1)");
  }
}

BOOST_AUTO_TEST_SUITE_END()
