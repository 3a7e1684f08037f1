#include <boost/test/unit_test.hpp>

#include <troupe/ps/param/loss_scale.h>

#include <tests/support/coordinator_world.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;

BOOST_AUTO_TEST_SUITE(loss_scale)

namespace {

constexpr LossScaling kDynamic{.dynamic = true, .initial = 64, .growth = 2, .interval = 3, .backoff = 0.5, .least = 16};
using World = CoordinatorWorld;

World scaled() {
  World w(kSync);
  w.options.loss_scaling = kDynamic;
  w.options.skip_non_finite = true;
  return w;
}

/// What both servers say of a step.
void judge(World& w, Step step, bool finite) {
  w.hear(w.server(0), Partial{step, 1, true, ""});
  w.hear(w.server(1), Partial{step, 1, finite, finite ? "" : "layer fc2, worker 1"});
}

/// Both workers take a step; the scale that they were told.
double take_step(World& w, Step step, bool finite) {
  const auto first = w.ask(0, static_cast<uint64_t>(step) + 1), second = w.ask(1, static_cast<uint64_t>(step) + 1);
  BOOST_REQUIRE(first && second);
  BOOST_TEST(first->step == step);
  BOOST_TEST(first->loss_scale == second->loss_scale);
  w.finish(0, *first);
  w.finish(1, *second);
  judge(w, step, finite);
  return first->loss_scale;
}

}  // namespace

// ---- the rule ---------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ItFallsBehindAnOverflowAndRisesAfterTheInterval) {
  LossScale scale{64, 0};
  std::vector<double> values;
  for (const bool overflow : {false, false, false, true, false, false, true, false, false, false}) {
    scale = next_loss_scale(kDynamic, scale, overflow);
    values.push_back(scale.value);
  }
  BOOST_TEST(values == (std::vector<double>{64, 64, 128, 64, 64, 64, 32, 32, 32, 64}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(ItNeverFallsBelowTheLeast) {
  BOOST_TEST(next_loss_scale(kDynamic, {17, 2}, true).value == 16);
  BOOST_TEST(next_loss_scale(kDynamic, {16, 0}, true).value == 16);
}

BOOST_AUTO_TEST_CASE(ItNeverGrowsBeyondAFloat) {
  const LossScale most = next_loss_scale(kDynamic, {0x1p127, 2}, false);
  BOOST_TEST(most.value == 0x1p127);
  BOOST_TEST(most.good_steps == 0);
}

BOOST_AUTO_TEST_CASE(AFixedScaleStays) {
  LossScale scale{1024, 0};
  for (const bool overflow : {true, false, false, false}) scale = next_loss_scale({.initial = 1024}, scale, overflow);
  BOOST_TEST(scale.value == 1024);
}

// ---- the coordinator --------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(AStepIsDealtWhenTheVerdictOfTheOneBeforeIsThere) {
  World w = scaled();
  w.begin();
  BOOST_TEST(w.ask(0, 1)->step == 0);
  BOOST_TEST(!w.ask(0, 2));  // no verdict yet
  w.ask(1, 1);
  w.hear(w.server(0), Partial{0, 1, true, ""});
  BOOST_TEST(w.said<Work>().empty());
  w.hear(w.server(1), Partial{0, 1, true, ""});
  const auto work = w.said<Work>();
  BOOST_TEST_REQUIRE(work.size() == 1u);
  BOOST_TEST(work[0].step == 1);
}

BOOST_AUTO_TEST_CASE(WithoutItStepsAreDealtAhead) {
  World w = scaled();
  w.options.loss_scaling = {.initial = 1024};
  w.begin();
  BOOST_TEST(w.ask(0, 1)->loss_scale == 1024);
  BOOST_TEST(w.ask(0, 2)->step == 1);
}

BOOST_AUTO_TEST_CASE(AllWorkersHaveTheSameScaleInEveryStep) {
  World w = scaled();
  w.begin();
  std::vector<double> scales;
  for (Step step = 0; step < 5; ++step) scales.push_back(take_step(w, step, step != 1));
  BOOST_TEST(scales == (std::vector<double>{64, 64, 32, 32, 32}), boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(w.all.events.size() == 2u);
  BOOST_TEST(
      w.all.events[0] ==
      "step 1: the gradient overflowed (layer fc2, worker 1), the step is skipped; the loss scale goes from 64 to 32");
  BOOST_TEST(w.all.events[1] == "step 4: 3 steps in a row did not overflow; the loss scale goes from 32 to 64");
  BOOST_TEST(w.all.steps.at(2).loss_scale == 32);
}

BOOST_AUTO_TEST_CASE(AnOverflowAtTheLeastScaleEndsTheRunAndSaysHowItCameThere) {
  World w = scaled();
  w.begin();
  for (Step step = 0; step < 3; ++step) take_step(w, step, false);
  BOOST_TEST_REQUIRE(w.all.finished.has_value());
  BOOST_TEST(
      w.all.finished->failure.find("step 2: the gradient holds NaN or Inf (layer fc2, worker 1) at the least loss "
                                   "scale, 16 (before: 64 from step 0, 32 from step 1, 16 from step 2)") == 0u);
}

BOOST_AUTO_TEST_CASE(OrIsSkippedWhereTheRunIsToldTo) {
  World w = scaled();
  w.options.stop_at_least_scale = false;
  w.begin();
  for (Step step = 0; step < 4; ++step) take_step(w, step, false);
  BOOST_TEST(!w.all.finished);
}

BOOST_AUTO_TEST_CASE(ACheckpointHoldsItAndAResumedRunGoesOnWithIt) {
  World w = scaled();
  w.options.checkpoint_every_steps = 2;
  w.begin();
  take_step(w, 0, false);
  take_step(w, 1, true);
  w.ask(0, 3), w.ask(1, 3);  // beyond the boundary
  w.answer_snapshots();
  BOOST_TEST_REQUIRE(w.all.checkpoints.size() == 1u);
  BOOST_TEST((w.all.checkpoints[0].loss_scale == LossScale{32, 1}));
  World rest = scaled();
  rest.options.resume = w.all.checkpoints[0].dealer;
  rest.options.resume_scale = w.all.checkpoints[0].loss_scale;
  rest.begin();
  const auto work = rest.ask(0, 1);
  BOOST_TEST_REQUIRE(work.has_value());
  BOOST_TEST(work->step == 2);
  BOOST_TEST(work->loss_scale == 32);
}

BOOST_AUTO_TEST_CASE(ACoordinatorThatIsStartedAgainGoesOnWithIt) {
  World w = scaled();
  w.begin();
  take_step(w, 0, false);
  take_step(w, 1, true);
  w.core = CoordinatorCore::restore(w.options, w.core->image()).value();
  BOOST_TEST(take_step(w, 2, true) == 32);
  BOOST_TEST(take_step(w, 3, true) == 32);
  BOOST_TEST(take_step(w, 4, true) == 64);
}

BOOST_AUTO_TEST_CASE(LayersThatWaitForNobodyAreRefused) {
  World w = scaled();
  w.options.policies[1] = {Mode::ssp, 2};
  const auto made = CoordinatorCore::make(w.options);
  BOOST_TEST_REQUIRE(!made.has_value());
  BOOST_TEST(made.error().message.find("ssp") != std::string::npos);
  World changing = scaled();
  changing.begin();
  BOOST_TEST(!changing.core->change_policies({{"*", {Mode::async, 0}}}).has_value());
}

BOOST_AUTO_TEST_CASE(ALossOfTheOnlyServersThatVoteDoesNotHoldTheNextStepBack) {
  World w = scaled();
  w.options.servers_reload = true;
  w.options.max_restarts = 2;
  w.begin();
  const auto first = w.ask(0, 1), second = w.ask(1, 1);
  w.hear(kNode, Down{w.server(0), "gone"});
  w.hear(kNode, Down{w.server(1), "gone"});
  for (ReloadRequest request : std::exchange(w.all.reloads, {})) {
    Reload reload{"", 0, {}};
    for (const Slice& slice : w.core->membership().layout->slices)
      if (slice.server == request.server.index)
        reload.slices.push_back({slice.id, Tensor::zeros({slice.count()}), {}, 0});
    w.take(w.core->reloaded(request.server, reload));
  }
  for (const Spawn& spawn : w.said<Spawn>()) w.hear(kNode, SpawnAck{spawn.who});
  w.join();
  w.finish(0, *first);
  w.finish(1, *second);
  const auto next = w.ask(0, 2);  // step 0 has no verdict, and gets none
  BOOST_TEST_REQUIRE(next.has_value());
  BOOST_TEST(next->step == 1);
}

BOOST_AUTO_TEST_SUITE_END()
