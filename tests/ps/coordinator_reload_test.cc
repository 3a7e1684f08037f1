#include <boost/test/unit_test.hpp>

#include <troupe/ps/control/journal.h>

#include <tests/support/coordinator_world.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;

BOOST_AUTO_TEST_SUITE(coordinator_reload)

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Server 0 holds all of one layer; lost servers go on from a checkpoint.
class World : public CoordinatorWorld {
 public:
  explicit World(Policy policy) : CoordinatorWorld(policy) { options.servers_reload = true; }

  SliceId slice_of(ServerId s) const {
    for (const Slice& slice : core->membership().layout->slices)
      if (slice.server == s) return slice.id;
    return 99;
  }
  Reload reload_of(ServerId s, Step step, int64_t updates, std::string folder = "checkpoints/step-1") const {
    return {std::move(folder), step, {{slice_of(s), Tensor::zeros({32}), {}, updates}}};
  }
  void lose(ServerId s) { hear(kNode, Down{server(s), "killed"}); }
  /// Server 0 is lost and goes on from the checkpoint of step `from`.
  void lose_and_reload(Step from) {
    lose(0);
    take(core->reloaded(server(0), reload_of(0, from, 0)));
    for (const Spawn& spawn : said<Spawn>()) hear(kNode, SpawnAck{spawn.who});
    join();
  }
  std::vector<int64_t> updates_lost() const {
    std::vector<int64_t> counts;
    for (const LostRange& range : lost()) counts.push_back(range.updates_lost);
    return counts;
  }
  std::vector<ReloadRequest> asked() { return std::exchange(all.reloads, {}); }
  std::vector<LostRange> lost() const { return core->status().lost; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(ALostServerIsStartedWithTheNewestCheckpointsSlicesAndTheWorkersSteps) {
  for (const Policy policy : {kSync, kAsync}) {
    World w(policy);
    w.begin();
    BOOST_REQUIRE(w.ask(0, 1));
    const auto first = w.ask(1, 1);
    w.finish(1, *first);
    BOOST_REQUIRE(w.ask(1, 2));
    w.lose(0);
    BOOST_TEST(w.said<Spawn>().empty());
    const auto asked = w.asked();
    BOOST_TEST_REQUIRE(asked.size() == 1u);
    BOOST_TEST((asked[0].server == Endpoint{Role::server, 0, 2}));
    w.take(w.core->reloaded(asked[0].server, w.reload_of(0, 0, 5)));
    const auto spawns = w.said<Spawn>();
    BOOST_TEST_REQUIRE(spawns.size() == 1u);
    BOOST_TEST_REQUIRE(spawns[0].image);
    const ShardImage& image = *spawns[0].image;
    const auto shard = Shard::make_from(image, {asked[0].server, kCoordinator, optimizer_of("sgd")}, make_null_store(),
                                        [](const Slice&) { return SliceState{}; });
    BOOST_REQUIRE_MESSAGE(shard.has_value(), (shard ? "" : shard.error().message));
    BOOST_TEST((image.parcels.at(0).clock == (policy == kSync ? std::vector<Step>{2, 2} : std::vector<Step>{1, 2})));
    BOOST_TEST(image.parcels.at(0).version == 2);
    BOOST_TEST(image.parcels.at(0).updates == 5);
    w.hear(kNode, SpawnAck{spawns[0].who});
    w.join();
    BOOST_TEST((w.core->membership().servers == std::vector<Incarnation>{2, 1}));
  }
}

BOOST_AUTO_TEST_CASE(NothingIsDealtAndNothingIsStartedBeforeTheCheckpointIsRead) {
  World w(kAsync);
  w.begin();
  w.lose(1);
  w.take(w.core->tick());
  BOOST_TEST(w.said<Spawn>().empty());
  BOOST_TEST(!w.ask(0, 1));
}

BOOST_AUTO_TEST_CASE(WhatIsLostIsReported) {
  World w(kAsync);
  w.options.checkpoint_every_steps = 2;
  w.begin();
  const uint64_t number = w.take_steps();  // to the boundary
  w.answer_snapshots();
  w.take(w.core->checkpoint_written({}));
  const auto work = w.ask(0, number);
  w.finish(0, *work);
  BOOST_REQUIRE(w.ask(1, number));
  w.lose(1);
  w.take(w.core->reloaded(w.server(1), w.reload_of(1, 2, 4)));
  const auto lost = w.lost();
  BOOST_TEST_REQUIRE(lost.size() == 1u);
  const std::string layer = w.options.layers[w.core->membership().layout->slices[w.slice_of(1)].layer].name;
  BOOST_TEST((lost[0] == LostRange{1, layer, 0, 32, 2, 3, 4, 2}));
  BOOST_TEST(
      holds(w.all.events.back(), "of server 1 is as before step 2 (4 updates) and goes on with step 3: up to 2"));
  BOOST_TEST(holds(w.all.events.at(w.all.events.size() - 2), "goes on from the checkpoint checkpoints/step-1"));
}

BOOST_AUTO_TEST_CASE(ALossIsCountedOnceWhenTheServerIsLostAgain) {
  World w(kSync);
  w.options.max_restarts = 5;
  w.begin();
  for (uint64_t number = 1; number <= 2; ++number) {
    const auto a = w.ask(0, number), b = w.ask(1, number);
    w.finish(0, *a), w.finish(1, *b);
    w.lose(0);
    w.take(w.core->reloaded(w.server(0), w.reload_of(0, 0, 0, "")));
    w.lose(0);  // before it was there
    w.take(w.core->reloaded(w.server(0), w.reload_of(0, 0, 0, "")));
    for (const Spawn& spawn : w.said<Spawn>()) w.hear(kNode, SpawnAck{spawn.who});
    w.join();
  }
  BOOST_TEST((w.updates_lost() == std::vector<int64_t>{1, 0, 1, 0}));
  BOOST_TEST(holds(w.all.events.at(1), "there is no checkpoint yet: server 0 goes on from the first parameters"));
}

BOOST_AUTO_TEST_CASE(AServerThatIsLostAgainAndGoesBackFurtherLosesWhatLiesBetween) {
  World w(kSync);
  w.options.max_restarts = 5;
  w.options.checkpoint_every_steps = 2;
  w.options.dealer.epochs = 2;
  w.begin();
  uint64_t number = 1;
  const auto step = [&] {
    const auto a = w.ask(0, number), b = w.ask(1, number);
    BOOST_REQUIRE(a && b);
    w.finish(0, *a), w.finish(1, *b);
    ++number;
  };
  const auto checkpoint = [&] {
    BOOST_REQUIRE(!w.ask(0, number) && !w.ask(1, number));
    w.answer_snapshots();
    w.take(w.core->checkpoint_written({}));
  };
  step(), step(), checkpoint();
  step(), step(), checkpoint();
  step();
  w.lose_and_reload(4);  // holds 0..3
  w.ask(0, number), w.ask(1, number);
  w.lose_and_reload(2);  // step 5 is lost, and 2 and 3: the newest cannot be read any more
  BOOST_TEST((w.updates_lost() == std::vector<int64_t>{1, 3}));
}

// The newest checkpoint could not be read the first time.
BOOST_AUTO_TEST_CASE(AServerThatIsLostAgainAndGoesBackLessFarLosesNothingMore) {
  for (const auto& [policy, lost] : {std::pair(kSync, 3), std::pair(kAsync, 6)}) {  // steps, and pushes of two workers
    World w(policy);
    w.options.max_restarts = 5;
    w.options.checkpoint_every_steps = 2;
    w.options.dealer.epochs = 2;
    w.begin();
    uint64_t number = 1;
    const auto steps = [&](int count) {
      for (; count > 0; --count, ++number) {
        const auto a = w.ask(0, number), b = w.ask(1, number);
        BOOST_REQUIRE(a && b);
        w.finish(0, *a), w.finish(1, *b);
      }
    };
    const auto checkpoint = [&] {
      BOOST_REQUIRE(!w.ask(0, number) && !w.ask(1, number));
      w.answer_snapshots();
      w.take(w.core->checkpoint_written({}));
    };
    steps(2), checkpoint();
    steps(2), checkpoint();
    steps(1);
    w.lose_and_reload(2);
    w.lose_and_reload(4);
    BOOST_TEST((w.updates_lost() == std::vector<int64_t>{lost, 0}));
  }
}

BOOST_AUTO_TEST_CASE(ACheckpointAfterALossLacksWhatWasLostAndItIsNotCountedAgain) {
  World w(kSync);
  w.options.max_restarts = 5;
  w.options.checkpoint_every_steps = 2;
  w.begin();
  BOOST_REQUIRE(w.take_step());
  w.lose_and_reload(0);
  const uint64_t number = w.take_steps(2);  // to the boundary
  w.answer_snapshots();
  w.take(w.core->checkpoint_written({}));
  BOOST_REQUIRE(w.ask(0, number));
  w.lose_and_reload(2);
  BOOST_TEST((w.updates_lost() == std::vector<int64_t>{1, 1}));
}

BOOST_AUTO_TEST_CASE(AStepThatWasLostWithEveryServerIsNotDecided) {
  World w(kSync);
  w.options.max_restarts = 5;
  w.options.skip_non_finite = true;
  w.begin();
  const auto first = w.ask(0, 1);
  BOOST_REQUIRE(w.ask(1, 1));
  w.finish(0, *first);
  w.hear(w.server(1), Partial{0, 25});
  w.lose_and_reload(0);
  w.lose(1);
  w.take(w.core->reloaded(w.server(1), w.reload_of(1, 0, 0)));
  for (const Spawn& spawn : w.said<Spawn>()) w.hear(kNode, SpawnAck{spawn.who});
  w.join();
  w.hear(w.worker(1), WorkDone{1, Work::Kind::train, 0, {1, 1, 2}, 0, 0, 0, 0, 0, "layer fc1"});
  w.take(w.core->fail_run("it is enough"));
  BOOST_TEST_REQUIRE(w.all.finished.has_value());
  BOOST_TEST(w.all.finished->skipped_steps == 0);
}

BOOST_AUTO_TEST_CASE(ALayerThatTookEachPushForItselfForAWhileLosesPushes) {
  World w(kSync);
  w.options.max_restarts = 5;
  w.begin();
  BOOST_REQUIRE(w.take_step());
  uint64_t number = 2;
  for (const Policy policy : {kAsync, kSync}) {
    BOOST_REQUIRE(w.core->change_policies({{"*", policy}}));
    w.ask(0, number), w.ask(1, number);  // the boundary
    w.join();
    const auto work = w.said<Work>();
    BOOST_TEST_REQUIRE(work.size() == 2u);
    w.finish(0, work[0]), w.finish(1, work[1]);
    ++number;
  }
  w.lose_and_reload(0);
  BOOST_TEST((w.updates_lost() == std::vector<int64_t>{6}));  // three steps of two workers
}

BOOST_AUTO_TEST_CASE(NothingIsDecidedOnAStepWhileAServerIsOnItsWayBack) {
  World w(kSync);
  w.options.clip_norm = 2.5;
  w.begin();
  BOOST_REQUIRE(w.take_step());
  w.lose(0);
  w.take(w.core->reloaded(w.server(0), w.reload_of(0, 0, 0)));
  w.hear(w.server(1), Partial{0, 25});
  BOOST_TEST(w.said<Verdict>().empty());
  for (const Spawn& spawn : w.said<Spawn>()) w.hear(kNode, SpawnAck{spawn.who});
  w.join();
  w.hear(w.server(1), Partial{0, 25});
  BOOST_TEST(w.said<Verdict>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(ACoordinatorThatIsStartedAgainReadsTheCheckpointOnceMoreAndReportsNothingTwice) {
  World w(kAsync);
  w.begin();
  BOOST_REQUIRE(w.ask(0, 1));
  w.lose(0);
  const Endpoint server = w.server(0);
  const CoordinatorInput read{0, CoordinatorInput::CheckpointRead{server, w.reload_of(0, 0, 0)}};
  std::vector<std::byte> journal = journal_record(JournalHead{}, 1, 0);
  const auto record = journal_record(read);
  journal.insert(journal.end(), record.begin(), record.end());
  JournalReader reader(journal);
  BOOST_REQUIRE(reader.begin());
  const auto kept = reader.next();
  BOOST_REQUIRE(kept && *kept);
  w.take(*tell(*w.core, **kept));
  BOOST_TEST(w.said<Spawn>().empty());  // a journal holds no tensors
  BOOST_TEST(w.lost().size() == 1u);
  w.asked();
  auto again = CoordinatorCore::restore(w.options, w.core->image());
  BOOST_REQUIRE(again);
  w.core = std::move(*again);
  w.take(w.core->recovered());
  BOOST_TEST(w.asked().size() == 1u);
  w.take(*tell(*w.core, read));
  BOOST_TEST(w.lost().size() == 1u);
  BOOST_TEST(w.said<Spawn>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(AStepBeforeTheLossIsDecidedWithoutTheServerThatWasLost) {
  World w(kSync);
  w.options.clip_norm = 2.5;
  w.begin();
  BOOST_REQUIRE(w.take_step());
  BOOST_REQUIRE(w.ask(0, 2));
  w.lose_and_reload(0);
  w.hear(w.server(1), Partial{0, 25});
  const auto verdicts = w.said<Verdict>();
  BOOST_TEST_REQUIRE(verdicts.size() == 1u);
  BOOST_TEST(verdicts[0].scale == 0.5);
  w.hear(w.server(1), Partial{2, 25});
  BOOST_TEST(w.said<Verdict>().empty());
  w.hear(w.server(0), Partial{2, 0});
  BOOST_TEST(w.said<Verdict>().size() == 2u);
}

BOOST_AUTO_TEST_CASE(AStepIsSkippedThoughOnlyTheServerThatWasLostKnewWhy) {
  World w(kSync);
  w.options.skip_non_finite = true;
  w.begin();
  const auto first = w.ask(0, 1);
  BOOST_REQUIRE(w.ask(1, 1));
  w.finish(0, *first);
  w.lose_and_reload(0);
  w.hear(w.server(1), Partial{0, 25});
  BOOST_TEST(w.said<Verdict>().empty());  // worker 1 has not said what it knows
  w.hear(w.worker(1), WorkDone{1, Work::Kind::train, 0, {1, 1, 2}, 0, 0, 0, 0, 0, "layer fc1"});
  const auto verdicts = w.said<Verdict>();
  BOOST_TEST_REQUIRE(verdicts.size() == 1u);
  BOOST_TEST(verdicts[0].skip);
}

BOOST_AUTO_TEST_CASE(WithoutACheckpointThatCanBeReadTheRunEnds) {
  World w(kAsync);
  w.begin();
  w.lose(0);
  w.take(w.core->reloaded(w.server(0), fail(ErrorKind::corrupt, "step-3: damaged")));
  BOOST_TEST_REQUIRE(w.all.finished.has_value());
  BOOST_TEST(holds(w.all.finished->failure, "cannot go on from the newest checkpoint: step-3: damaged"));
}

BOOST_AUTO_TEST_CASE(ServersAreReplacedAsOftenAsTheConfigSays) {
  World w(kAsync);
  w.begin();
  w.lose(0);
  w.lose(1);
  BOOST_TEST_REQUIRE(w.all.finished.has_value());
  BOOST_TEST(holds(w.all.finished->failure, "server 1 ended: killed; 1 of elastic.max_restarts = 1 restarts are used"));
}

BOOST_AUTO_TEST_CASE(TheHomeOfAnAllReduceLayerIsNotReplaced) {
  World w(kReduced);
  w.begin();
  w.lose(0);
  BOOST_TEST_REQUIRE(w.all.finished.has_value());
  BOOST_TEST(w.all.finished->failure ==
             "server 0 ended: killed; it was the home of all_reduce layers, of which its workers may hold copies of "
             "different age; what it held since the last checkpoint is gone, and there is none yet: begin anew, with "
             "checkpoint.every_steps for the next time");
}

// There servers hold all_reduce layers as they hold others.
BOOST_AUTO_TEST_CASE(OverProcessesTheHomeOfAnAllReduceLayerGoesOnFromTheCheckpoint) {
  World w(kReduced);
  w.options.roster.nodes = 1;
  w.core = CoordinatorCore::make(w.options).value();
  w.take(w.core->start());
  w.hear({Role::node, kUnassigned, 7}, Hello{});
  w.hear(kNode, Ready{w.options.layers, w.options.dealer.train_samples, w.options.test_samples, ""});
  for (const Spawn& spawn : w.said<Spawn>()) w.hear(kNode, SpawnAck{spawn.who});
  w.join();
  w.lose(0);
  BOOST_TEST(!w.all.finished);
  BOOST_TEST_REQUIRE(w.asked().size() == 1u);
  w.take(w.core->reloaded(w.server(0), w.reload_of(0, 0, 0)));
  BOOST_TEST(w.lost().size() == 1u);
  BOOST_TEST(w.said<Spawn>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(WhereThereIsACheckpointARunThatEndsSaysHowToGoOnFromIt) {
  World w(kAsync);
  w.options.servers_reload = false;
  w.options.checkpoint_every_steps = 2;
  w.begin();
  w.take_steps();  // to the boundary
  w.answer_snapshots();
  w.take(w.core->checkpoint_written({}));
  w.lose(0);
  BOOST_TEST_REQUIRE(w.all.finished.has_value());
  BOOST_TEST(holds(w.all.finished->failure,
                   "what it held since the last checkpoint is gone: go on from there with train --resume RUN"));
}

BOOST_AUTO_TEST_CASE(AFailedRunCountsTheCheckpointThatIsBeingWritten) {
  World w(kAsync);
  w.options.checkpoint_every_steps = 2;
  w.begin();
  w.take_steps();
  w.answer_snapshots();
  w.take(w.core->fail_run("a disk burns"));
  BOOST_TEST(!w.all.finished.has_value());
  w.take(w.core->checkpoint_written({}));
  BOOST_TEST_REQUIRE(w.all.finished.has_value());
  BOOST_TEST(w.all.finished->checkpoints_written == 1);
  BOOST_TEST(w.all.finished->failure == "a disk burns");
}

BOOST_AUTO_TEST_SUITE_END()
