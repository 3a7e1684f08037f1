#include <boost/test/unit_test.hpp>

#include <tests/support/cluster_lab.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(resume)

namespace {

constexpr int64_t kSamples = 2048;

/// A run that stops itself in its `piece`-th piece of work.
Trial stopped_in(ClusterParts (*make)(Hooks), int piece, Hooks hooks = {}) {
  auto run = std::make_shared<std::promise<Run*>>();
  auto pieces = std::make_shared<std::atomic<int>>(0);
  Hooks stopping = hooks;
  stopping.before_backward = [hooks, run, pieces, piece](ps::WorkerId worker, const Batch& batch) {
    if (hooks.before_backward) hooks.before_backward(worker, batch);
    if (++*pieces == piece) run->get_future().get()->stop();
  };
  const auto lab = Lab::start(make(stopping));
  run->set_value(&lab->run());
  return Lab::finish(lab);
}

ClusterParts two_workers(const std::vector<ps::Policy>& policies, Hooks hooks) {
  ClusterParts parts = Bench{}.parts({20, 12}, policies, std::move(hooks));
  parts.coordinator.dealer.epochs = 3;
  return parts;
}
ClusterParts sync_run(Hooks hooks) { return two_workers({kSync}, std::move(hooks)); }
ClusterParts reduced_run(Hooks hooks) { return two_workers({kAllReduce}, std::move(hooks)); }
ClusterParts async_run(Hooks hooks) { return two_workers({kAsync}, std::move(hooks)); }
ClusterParts ssp_run(Hooks hooks) { return two_workers({kSsp}, std::move(hooks)); }
ClusterParts mixed_run(Hooks hooks) { return two_workers({kSync, kSsp, kAsync, kAllReduce}, std::move(hooks)); }

}  // namespace

BOOST_AUTO_TEST_CASE(AStoppedRunEndsWithACheckpointAtAStepBoundary) {
  for (auto make : {sync_run, reduced_run, mixed_run}) {
    const Trial trial = stopped_in(make, 75);
    BOOST_TEST((trial.result.outcome == ps::Outcome::interrupted));
    BOOST_TEST_REQUIRE(trial.checkpoints.size() == 1u);
    const ps::CheckpointRequest& checkpoint = trial.checkpoints[0];
    BOOST_TEST(checkpoint.step == trial.result.steps);
    BOOST_TEST(checkpoint.step >= 37);
    BOOST_TEST(trial.result.samples == checkpoint.dealer.epoch * kSamples + checkpoint.dealer.begin);
    for (const ps::SliceState& slice : checkpoint.slices) BOOST_TEST(slice.updates > 0);
  }
}

BOOST_AUTO_TEST_CASE(AStoppedAsynchronousRunHasNothingOnItsWay) {
  for (auto make : {async_run, ssp_run}) {
    const Trial trial = stopped_in(make, 75);
    BOOST_TEST((trial.result.outcome == ps::Outcome::interrupted));
    BOOST_TEST_REQUIRE(trial.checkpoints.size() == 1u);
    const ps::CheckpointRequest& checkpoint = trial.checkpoints[0];
    BOOST_TEST(checkpoint.dealer.returned.empty());
    BOOST_TEST(trial.result.samples == checkpoint.dealer.epoch * kSamples + checkpoint.dealer.begin);
    // Each piece of work was applied to every slice.
    const int64_t pieces = trial.result.workers[0].pieces + trial.result.workers[1].pieces;
    for (const ps::SliceState& slice : checkpoint.slices) BOOST_TEST(slice.updates <= pieces);
    for (const ps::SliceState& slice : checkpoint.slices) BOOST_TEST(slice.updates >= 75);
  }
}

BOOST_AUTO_TEST_CASE(AResumedSyncRunIsTheUninterruptedOneBitForBit) {
  const Trial whole = train(sync_run({}));
  const Trial first = stopped_in(sync_run, 101);
  ClusterParts rest = sync_run({});
  resume_from(rest, first.checkpoints[0]);
  const Trial second = train(std::move(rest));
  BOOST_TEST((second.parameters() == whole.parameters()));
  BOOST_TEST(second.result.steps == whole.result.steps);
  BOOST_TEST(first.result.samples + second.result.samples == whole.result.samples);
}

BOOST_AUTO_TEST_CASE(AResumedAllReduceRunIsTheUninterruptedOneBitForBit) {
  const Trial whole = train(reduced_run({}));
  ClusterParts rest = reduced_run({});
  resume_from(rest, stopped_in(reduced_run, 101).checkpoints[0]);
  BOOST_TEST((train(std::move(rest)).parameters() == whole.parameters()));
}

BOOST_AUTO_TEST_CASE(ARunGoesOnWithOtherNumbersOfWorkersAndServers) {
  for (auto make : {sync_run, reduced_run, mixed_run, async_run, ssp_run}) {
    auto seen = std::make_shared<SampleCount>(kSamples);
    Hooks hooks;
    hooks.before_backward = [seen](ps::WorkerId, const Batch& batch) { seen->add(batch.samples); };
    const Trial first = stopped_in(make, 101, hooks);
    for (const auto& [batch, servers] : {std::pair{std::vector<int64_t>{8, 8, 8, 8}, 5u}, {{32}, 1u}}) {
      auto all = std::make_shared<SampleCount>(*seen);
      ClusterParts parts = make({[all](ps::WorkerId, const Batch& batch) { all->add(batch.samples); }, {}});
      parts.coordinator.dealer.worker_batch = batch;
      parts.coordinator.layout.servers = servers;
      resume_from(parts, first.checkpoints[0]);
      const Trial second = train(std::move(parts));
      BOOST_TEST((second.result.outcome == ps::Outcome::completed), second.result.failure);
      BOOST_TEST(first.result.samples + second.result.samples == 3 * kSamples);
      BOOST_TEST(all->all(3));  // every epoch's samples exactly once
      BOOST_TEST(second.accuracy() > 0.85);
    }
  }
}

BOOST_AUTO_TEST_CASE(OtherNumbersOfServersChangeNoBitOfAResumedSyncRun) {
  const Trial whole = train(sync_run({}));
  ClusterParts rest = sync_run({});
  rest.coordinator.layout.servers = 3;
  rest.coordinator.layout.slice_bytes = 256;
  resume_from(rest, stopped_in(sync_run, 55).checkpoints[0]);
  BOOST_TEST((train(std::move(rest)).parameters() == whole.parameters()));
}

BOOST_AUTO_TEST_CASE(CheckpointsOnTheWayAreWrittenAtTheirSteps) {
  ClusterParts parts = mixed_run({});
  parts.coordinator.checkpoint_every_steps = 50;
  const Trial trial = train(std::move(parts));
  std::vector<ps::Step> steps;
  for (const auto& checkpoint : trial.checkpoints) steps.push_back(checkpoint.step);
  BOOST_TEST(steps == (std::vector<ps::Step>{50, 100, 150, 192}));
  BOOST_TEST(trial.result.checkpoints_written == 4);
}

BOOST_AUTO_TEST_CASE(ACheckpointOnTheWayIsWhatItWasWhenTrainingGoesOn) {
  ClusterParts parts = sync_run({});
  parts.coordinator.checkpoint_every_steps = 50;
  const Trial trial = train(std::move(parts));
  ClusterParts rest = sync_run({});
  resume_from(rest, trial.checkpoints[1]);
  BOOST_TEST((train(std::move(rest)).parameters() == trial.parameters()));
}

BOOST_AUTO_TEST_CASE(ACheckpointThatCannotBeWrittenIsCountedAndTrainingGoesOn) {
  ClusterParts parts = sync_run({});
  parts.coordinator.checkpoint_every_steps = 50;
  parts.write_checkpoint = [](const ps::CheckpointRequest& request) -> Status {
    if (request.step == 100) return fail(ErrorKind::exhausted, "disk is full");
    if (request.step == 150) throw std::runtime_error("disk is gone");
    return {};
  };
  struct Events : RunObserver {
    std::vector<std::string> events;
    void on_event(const std::string& event) override { events.push_back(event); }
  };
  const auto events = std::make_shared<Events>();
  parts.observer = events;
  auto run = Run::start(std::move(parts)).value();
  const ps::RunResult& result = run->wait();
  BOOST_TEST((result.outcome == ps::Outcome::completed));
  BOOST_TEST(result.checkpoints_written == 2);
  BOOST_TEST(result.checkpoints_failed == 2);
  BOOST_TEST_REQUIRE(events->events.size() == 2u);
  BOOST_TEST(events->events[0].find("disk is full") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
