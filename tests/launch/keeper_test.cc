#include <boost/test/unit_test.hpp>

#include <tools/launch/keeper.h>

#include <troupe/kernels/base/text.h>

using namespace troupe;
using namespace troupe::launch;

BOOST_AUTO_TEST_SUITE(keeper)

namespace {

constexpr int kCoordinator = Keeper::kCoordinator;

/// "start c, again 1, ask 0, kill 2".
std::string text(const Keeper::Effects& effects) {
  std::string all;
  for (const auto& effect : effects) {
    using Kind = Keeper::Effect::Kind;
    all += all.empty() ? "" : ", ";
    all += effect.kind == Kind::start ? (effect.again ? "again" : "start") : effect.kind == Kind::ask ? "ask" : "kill";
    all += effect.process == kCoordinator ? " c" : cat(' ', effect.process);
  }
  return all;
}

Incident by_signal(int number) { return {.ending = {true, number}}; }
Incident by_exit(int code) { return {.ending = {false, code}}; }

/// A run that goes on: the coordinator and its nodes are up.
struct Run {
  explicit Run(KeeperOptions options) : keeper(options) {
    keeper.begin(Moment{0});
    keeper.announced(Moment{10});
    for (int i = 0; i < options.nodes; ++i) keeper.answered(i);
  }
  std::string ended(int process, const Incident& incident, int ms) {
    const auto effects = keeper.ended(process, incident, Moment{ms});
    if (process != kCoordinator && !effects.empty()) keeper.answered(process);
    return text(effects);
  }
  std::string tick(int ms) { return text(keeper.tick(Moment{ms})); }
  Incident::Done done() const { return keeper.incidents().back().done; }

  Keeper keeper;
};

KeeperOptions options(int nodes, OnLoss on_loss = OnLoss::restart, int64_t max_restarts = 3) {
  return {.nodes = nodes,
          .on_loss = on_loss,
          .max_restarts = max_restarts,
          .start_timeout = Moment{1000},
          .grace = Moment{5000},
          .leave = Moment{100}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(NodesAreStartedOnceTheCoordinatorListens) {
  Keeper keeper(options(2));
  BOOST_TEST(text(keeper.begin(Moment{0})) == "start c");
  BOOST_TEST(text(keeper.announced(Moment{5})) == "start 0, start 1");
  BOOST_TEST(text(keeper.announced(Moment{6})) == "");
}

BOOST_AUTO_TEST_CASE(ARunEndsWhenTheCoordinatorAndThenTheNodesHaveEnded) {
  Run run(options(2));
  BOOST_TEST(run.ended(kCoordinator, by_exit(0), 20) == "");
  BOOST_TEST(!run.keeper.finished());
  run.ended(0, by_exit(0), 21);
  run.ended(1, by_exit(0), 22);
  BOOST_TEST(run.keeper.finished());
  BOOST_TEST(run.keeper.exit_code() == 0);
  BOOST_TEST(run.keeper.incidents().empty());
}

BOOST_AUTO_TEST_CASE(NodesThatStayAreAskedAndThenKilled) {
  Run run(options(1));
  run.ended(kCoordinator, by_exit(0), 1000);
  BOOST_TEST(run.keeper.next()->count() == 1100);
  BOOST_TEST(run.tick(1099) == "");
  BOOST_TEST(run.tick(1100) == "ask 0");
  BOOST_TEST(run.tick(1200) == "kill 0");
  run.ended(0, by_signal(9), 1201);
  BOOST_TEST(run.keeper.finished());
  BOOST_TEST(run.keeper.exit_code() == 0);
}

BOOST_AUTO_TEST_CASE(ALostNodeIsStartedAgainUntilTheNumberIsUsedUp) {
  Run run(options(2, OnLoss::restart, 2));
  BOOST_TEST(run.ended(1, by_signal(9), 5000) == "again 1");
  BOOST_TEST(run.ended(0, by_exit(1), 9000) == "again 0");
  BOOST_TEST(run.ended(1, by_signal(6), 20000) == "");
  BOOST_TEST((run.done() == Incident::Done::ended_the_run));
  BOOST_TEST(run.tick(20100) == "ask c");
  run.ended(kCoordinator, by_exit(130), 20200);
  BOOST_TEST(run.tick(20300) == "ask 0");
  run.ended(0, by_exit(0), 20301);
  BOOST_TEST(run.keeper.finished());
  BOOST_TEST(run.keeper.exit_code() == 134);
}

BOOST_AUTO_TEST_CASE(ANodeThatDiesAgainAndAgainAtOnceIsGivenTime) {
  Run run(options(1, OnLoss::restart, 100));
  BOOST_TEST(run.ended(0, by_signal(9), 20) == "again 0");
  BOOST_TEST(run.ended(0, by_signal(9), 40) == "");
  BOOST_TEST(run.tick(139) == "");
  BOOST_TEST(run.tick(140) == "again 0");
  BOOST_TEST(run.ended(0, by_signal(9), 150) == "");
  BOOST_TEST(run.keeper.next()->count() == 350);
  run.tick(350);
  BOOST_TEST(run.ended(0, by_signal(9), 9000) == "again 0");  // it had lived for long
}

BOOST_AUTO_TEST_CASE(ARunShrinksUntilNoNodeIsLeft) {
  Run run(options(2, OnLoss::shrink, 0));
  run.keeper.begun();
  BOOST_TEST(run.ended(0, by_signal(9), 100) == "");
  BOOST_TEST((run.done() == Incident::Done::dropped));
  run.ended(1, by_signal(11), 200);
  BOOST_TEST((run.done() == Incident::Done::ended_the_run));
  BOOST_TEST(run.tick(300) == "ask c");
  run.ended(kCoordinator, by_exit(1), 301);
  BOOST_TEST(run.keeper.finished());
  BOOST_TEST(run.keeper.exit_code() == 139);
}

BOOST_AUTO_TEST_CASE(BeforeTheRunBeginsNoNodeIsDropped) {
  Run run(options(2, OnLoss::shrink, 1));
  BOOST_TEST(run.ended(0, by_signal(9), 100) == "again 0");
  BOOST_TEST((run.done() == Incident::Done::restarted));
  run.ended(1, by_signal(9), 200);
  BOOST_TEST((run.done() == Incident::Done::ended_the_run));
}

BOOST_AUTO_TEST_CASE(ADroppedNodeDoesNotFailTheRun) {
  Run run(options(2, OnLoss::shrink));
  run.keeper.begun();
  run.ended(0, by_signal(9), 100);
  run.ended(kCoordinator, by_exit(0), 200);
  run.ended(1, by_exit(0), 201);
  BOOST_TEST(run.keeper.exit_code() == 0);
}

BOOST_AUTO_TEST_CASE(UnderFailTheFirstLossEndsTheRunWithItsCode) {
  Run run(options(2, OnLoss::fail));
  run.ended(1, by_signal(9), 100);
  run.ended(kCoordinator, by_exit(1), 120);  // it saw the loss itself
  run.ended(0, by_exit(0), 121);
  BOOST_TEST(run.keeper.finished());
  BOOST_TEST(run.keeper.exit_code() == 137);
}

BOOST_AUTO_TEST_CASE(ANodeThatCannotJoinIsNotStartedAgain) {
  Run run(options(1));
  BOOST_TEST(run.ended(0, by_exit(2), 100) == "");
  BOOST_TEST((run.done() == Incident::Done::ended_the_run));
  BOOST_TEST(run.keeper.exit_code() == 2);
}

BOOST_AUTO_TEST_CASE(ANodeThatIsTurnedOutLaterMayComeAgain) {
  Run run(options(1));
  run.keeper.joined(0);
  BOOST_TEST(run.ended(0, by_exit(2), 9000) == "again 0");
}

BOOST_AUTO_TEST_CASE(ANodeThatLeavesWithZeroIsNotMissed) {
  Run run(options(2));
  BOOST_TEST(run.ended(0, by_exit(0), 100) == "");
  BOOST_TEST(!run.keeper.finished());
  BOOST_TEST(run.keeper.incidents().empty());
}

BOOST_AUTO_TEST_CASE(ACoordinatorThatCrashesIsStartedAgain) {
  Run run(options(1));
  BOOST_TEST(run.ended(kCoordinator, by_signal(9), 5000) == "again c");
  BOOST_TEST(text(run.keeper.announced(Moment{5100})) == "");
  run.ended(kCoordinator, by_exit(0), 6000);
  run.ended(0, by_exit(0), 6001);
  BOOST_TEST(run.keeper.exit_code() == 0);
  BOOST_TEST((run.done() == Incident::Done::restarted));
}

BOOST_AUTO_TEST_CASE(ACoordinatorThatCrashesBeforeItListensIsNot) {
  Keeper keeper(options(1));
  keeper.begin(Moment{0});
  BOOST_TEST(text(keeper.ended(kCoordinator, by_signal(11), Moment{50})) == "");
  BOOST_TEST(keeper.finished());
  BOOST_TEST(keeper.exit_code() == 139);
}

BOOST_AUTO_TEST_CASE(ACoordinatorThatEndsByItselfHasDecided) {
  Run run(options(1));
  BOOST_TEST(run.ended(kCoordinator, by_exit(3), 100) == "");
  run.ended(0, by_exit(0), 101);
  BOOST_TEST(run.keeper.finished());
  BOOST_TEST(run.keeper.exit_code() == 3);
  BOOST_TEST((run.done() == Incident::Done::ended_the_run));
}

BOOST_AUTO_TEST_CASE(AFailureThatWasMendedDoesNotGiveTheExitCode) {
  Run run(options(1));
  run.ended(0, by_signal(9), 5000);
  run.ended(kCoordinator, by_exit(3), 9000);
  run.ended(0, by_exit(0), 9001);
  BOOST_TEST(run.keeper.exit_code() == 3);
}

BOOST_AUTO_TEST_CASE(TheFirstInterruptAsksAndTheSecondKills) {
  Run run(options(2));
  BOOST_TEST(text(run.keeper.interrupted(Moment{100})) == "ask c");
  BOOST_TEST(text(run.keeper.interrupted(Moment{200})) == "kill c, kill 0, kill 1");
  for (int i : {kCoordinator, 0, 1}) run.ended(i, by_signal(9), 201);
  BOOST_TEST(run.keeper.finished());
  BOOST_TEST(run.keeper.exit_code() == 130);
  BOOST_TEST(run.keeper.incidents().empty());
}

BOOST_AUTO_TEST_CASE(TheGraceTimeOfAnInterruptIsBounded) {
  Run run(options(1));
  run.keeper.interrupted(Moment{100});
  BOOST_TEST(run.tick(5099) == "");
  BOOST_TEST(run.tick(5100) == "kill c, kill 0");
}

BOOST_AUTO_TEST_CASE(AnInterruptAfterTheEndPutsNothingOff) {
  Run run(options(1));
  run.ended(kCoordinator, by_exit(0), 1000);
  run.keeper.interrupted(Moment{1050});
  BOOST_TEST(run.tick(1200) == "kill 0");
}

BOOST_AUTO_TEST_CASE(AnInterruptedRunThatCouldNotSaveFails) {
  Run run(options(0));
  run.keeper.interrupted(Moment{100});
  run.ended(kCoordinator, by_exit(1), 200);
  BOOST_TEST(run.keeper.finished());
  BOOST_TEST(run.keeper.exit_code() == 1);
}

BOOST_AUTO_TEST_CASE(AnInterruptCallsOffRestartsThatWait) {
  Run run(options(1, OnLoss::restart, 100));
  run.ended(0, by_signal(9), 20);
  run.ended(0, by_signal(9), 30);
  run.keeper.interrupted(Moment{40});
  BOOST_TEST(run.tick(4000) == "");
  run.ended(kCoordinator, by_exit(130), 4001);
  BOOST_TEST(run.keeper.finished());
}

BOOST_AUTO_TEST_CASE(AHostThatDoesNotAnswerEndsTheRun) {
  Keeper keeper(options(2));
  keeper.begin(Moment{0});
  keeper.announced(Moment{10});
  keeper.answered(0);
  BOOST_TEST(text(keeper.tick(Moment{1009})) == "");
  BOOST_TEST(text(keeper.tick(Moment{1010})) == "kill 1");
  BOOST_TEST(text(keeper.tick(Moment{1011})) == "");
  keeper.ended(1, by_signal(9), Moment{1012});
  BOOST_TEST(keeper.incidents().back().what == "did not answer within 1 s");
  BOOST_TEST(keeper.exit_code() == 1);
}

BOOST_AUTO_TEST_CASE(ANodeThatCannotBeStartedEndsTheRunWithItsCode) {
  Keeper keeper(options(1));
  keeper.begin(Moment{0});
  keeper.announced(Moment{10});
  BOOST_TEST(text(keeper.ended(0, by_exit(255), Moment{20})) == "");
  BOOST_TEST(keeper.exit_code() == 255);
}

BOOST_AUTO_TEST_CASE(WithoutACoordinatorTheNodesEndsAreTheJobs) {
  KeeperOptions alone = options(1, OnLoss::restart, 1);
  alone.coordinator = false;
  alone.nodes_elsewhere = 3;
  Keeper keeper(alone);
  BOOST_TEST(text(keeper.begin(Moment{0})) == "start 0");
  keeper.answered(0);
  BOOST_TEST(text(keeper.ended(0, by_signal(9), Moment{9000})) == "again 0");
  keeper.ended(0, by_exit(0), Moment{9900});
  BOOST_TEST(keeper.finished());
  BOOST_TEST(keeper.exit_code() == 0);
}

BOOST_AUTO_TEST_CASE(ANodeWithoutItsCoordinatorIsAskedOnlyWhenTheRunGoesOn) {
  KeeperOptions alone = options(1);
  alone.coordinator = false;
  alone.nodes_elsewhere = 3;
  alone.grace = Moment{900};
  Keeper keeper(alone);
  keeper.begin(Moment{0});
  keeper.answered(0);
  BOOST_TEST(text(keeper.interrupted(Moment{100})) == "");
  BOOST_TEST(text(keeper.tick(Moment{399})) == "");
  BOOST_TEST(text(keeper.tick(Moment{400})) == "ask 0");
  BOOST_TEST(text(keeper.tick(Moment{1000})) == "kill 0");
  keeper.ended(0, by_signal(9), Moment{1001});
  BOOST_TEST(keeper.exit_code() == 130);
}

BOOST_AUTO_TEST_CASE(ANodeDroppedHereLeavesTheRunToThoseElsewhere) {
  KeeperOptions some = options(1, OnLoss::shrink);
  some.nodes_elsewhere = 1;
  Run run(some);
  run.keeper.begun();
  run.ended(0, by_signal(9), 100);
  BOOST_TEST((run.done() == Incident::Done::dropped));
  BOOST_TEST(!run.keeper.finished());
}

BOOST_AUTO_TEST_SUITE_END()
