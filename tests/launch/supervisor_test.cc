#include <boost/test/unit_test.hpp>

#include <algorithm>

#include <tools/launch/output.h>

#include "lab.h"

using namespace troupe::launch;
using namespace troupe::launch::test;

BOOST_AUTO_TEST_SUITE(supervisor)

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(ARunWithoutFailuresEndsWithZeroAndNoTable) {
  Lab lab;
  lab.coordinator({"until:@done"});
  lab.node({"touch:@done"});
  BOOST_TEST(lab.run() == 0);
  BOOST_TEST(lab.err() == "");
}

BOOST_AUTO_TEST_CASE(TheCoordinatorsExitCodeIsTheJobs) {
  Lab lab;
  lab.coordinator({"err:error: diverged", "exit:7"});
  lab.node({"death:3", "forever"});
  BOOST_TEST(lab.run() == 7);
  BOOST_TEST(contains(lab.err(), "coordinator"));
  BOOST_TEST(contains(lab.err(), "exit code 7"));
  BOOST_TEST(contains(lab.err(), "| error: diverged"));
}

BOOST_AUTO_TEST_CASE(ASignalIsCountedAsShellsDo) {
  Lab lab;
  lab.options.keeper.on_loss = OnLoss::fail;
  lab.coordinator({"forever"});
  lab.node({"signal:9"});
  BOOST_TEST(lab.run() == 137);
  BOOST_TEST(contains(lab.err(), "signal 9 (Killed)"));
  BOOST_TEST(contains(lab.err(), "ended the run"));
}

BOOST_AUTO_TEST_CASE(ANodeThatDiesIsStartedAgain) {
  Lab lab;
  lab.coordinator({"until:@again"});
  lab.node({"once:@first", "signal:10", "out:second", "touch:@again"});
  BOOST_TEST(lab.run() == 0);
  BOOST_TEST(contains(lab.err(), "signal 10"));
  BOOST_TEST(contains(lab.err(), "started again"));
  BOOST_TEST(contains(lab.out(), "[node 0] second"));
}

BOOST_AUTO_TEST_CASE(ACoordinatorThatDiesRecoversWhileNodesGoOn) {
  Lab lab;
  lab.coordinator({"until:@node", "signal:9"});
  lab.recovered({"out:recovered", "touch:@recovered"});
  lab.node({"pid:@node", "until:@recovered", "out:went on"});
  BOOST_TEST(lab.run() == 0);
  BOOST_TEST(contains(lab.out(), "recovered"));
  BOOST_TEST(contains(lab.out(), "[node 0] went on"));
}

BOOST_AUTO_TEST_CASE(ACoordinatorThatNeverListensIsGivenUpOn) {
  Lab lab;
  lab.options.keeper.start_timeout = Moment{200};
  lab.coordinator({});
  lab.plan_edit = [](LaunchPlan& plan) { plan.coordinator.argv = {TROUPE_FAKE_PROCESS, "forever"}; };
  BOOST_TEST(lab.run() == 1);
  BOOST_TEST(contains(lab.err(), "did not begin to listen within 0.2 s"));
}

BOOST_AUTO_TEST_CASE(AProgramThatIsNotThereIsNamed) {
  Lab lab;
  lab.plan_edit = [](LaunchPlan& plan) { plan.coordinator.argv = {"/nowhere/troupe"}; };
  BOOST_TEST(lab.run() == 1);
  BOOST_TEST(contains(lab.err(), "cannot start /nowhere/troupe: No such file or directory"));
}

BOOST_AUTO_TEST_CASE(LinesOfFourWritersAtOnceNeverMix) {
  Lab lab;
  const std::string text(300, 'y');
  lab.coordinator({"until:@0", "until:@1", "until:@2", "until:@3"});
  for (const char* i : {"0", "1", "2", "3"})
    lab.node({std::string("lines:500:") + i + text, std::string("touch:@") + i});
  BOOST_TEST(lab.run() == 0);
  std::vector<std::string> expected, found = lines_of(lab.out());
  for (const char* i : {"0", "1", "2", "3"})
    for (int n = 0; n < 500; ++n)
      expected.push_back(std::string("[node ") + i + "] " + i + text + ' ' + std::to_string(n));
  std::sort(expected.begin(), expected.end());
  std::sort(found.begin(), found.end());
  BOOST_TEST((found == expected));
}

BOOST_AUTO_TEST_CASE(EachLogHoldsItsProcessesLinesOnly) {
  Lab lab;
  lab.coordinator({"out:of the coordinator", "until:@0", "until:@1"});
  lab.node({"out:first", "err:oh", "touch:@0"});
  lab.node({"out:second", "touch:@1"});
  BOOST_TEST(lab.run() == 0);
  BOOST_TEST(lab.log("coordinator") == "of the coordinator\n");
  auto lines = lines_of(lab.log("node-0"));
  std::sort(lines.begin(), lines.end());
  BOOST_TEST(lines == (std::vector<std::string>{"first", "oh"}), boost::test_tools::per_element());
  BOOST_TEST(lab.log("node-1") == "second\n");
}

BOOST_AUTO_TEST_CASE(OnlyWhatIsAskedForIsShownAndTheLogsHaveTheRest) {
  Lab lab;
  lab.options.show = {"1"};
  lab.coordinator({"out:hidden", "until:@0", "until:@1"});
  lab.node({"out:hidden too", "touch:@0"});
  lab.node({"out:shown", "touch:@1"});
  BOOST_TEST(lab.run() == 0);
  BOOST_TEST(lab.out() == "[node 1] shown\n");
  BOOST_TEST(lab.log("node-0") == "hidden too\n");
}

BOOST_AUTO_TEST_CASE(OutputLargerThanPipesArrivesWhole) {
  Lab lab;
  lab.coordinator({"until:@done"});
  lab.node({"bulk:3000000", "touch:@done"});
  BOOST_TEST(lab.run() == 0);
  const std::string log = lab.log("node-0");
  BOOST_TEST(std::count(log.begin(), log.end(), 'x') == 3000000);
  for (const std::string& line : lines_of(lab.out())) BOOST_REQUIRE(line.starts_with("[node 0] x"));
}

BOOST_AUTO_TEST_CASE(ALastLineWithoutItsEndIsCompleted) {
  Lab lab;
  lab.coordinator({"until:@done"});
  lab.node({"part:unfinished", "touch:@done"});
  BOOST_TEST(lab.run() == 0);
  BOOST_TEST(lab.out() == "[node 0] unfinished\n");
}

BOOST_AUTO_TEST_CASE(AProcessThatClosesItsOutputGoesOn) {
  Lab lab;
  lab.coordinator({"until:@done"});
  lab.node({"close:1", "close:2", "sleep:50", "touch:@done"});
  BOOST_TEST(lab.run() == 0);
}

BOOST_AUTO_TEST_CASE(AReaderThatStandsStillDoesNotKeepAnInterruptedRun) {
  Lab lab;
  int ends[2];
  BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  lab.options.out_fd = ends[1];
  lab.coordinator({"on-term:130", "forever"});
  lab.node({"bulk:1500000", "bulk:8000000", "pid:@goes", "forever"});
  const pid_t launcher = lab.start();
  BOOST_TEST(Lab::eventually([&] { return lab.log("node-0").size() > Output::kEnough; }));
  BOOST_TEST(lab.folder.read("goes") == "");
  ::kill(launcher, SIGTERM);
  BOOST_TEST(lab.pid_in("goes") > 0);
  BOOST_TEST(Lab::eventually([&] {
    ::kill(launcher, SIGTERM);
    return !Lab::runs(launcher);
  }));
  BOOST_TEST(lab.wait(launcher) == 130);
  ::close(ends[1]);
  ::close(ends[0]);
}

BOOST_AUTO_TEST_CASE(AReaderThatIsGoneDoesNotEndTheRun) {
  Lab lab;
  int ends[2];
  BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  ::close(ends[0]);
  lab.options.out_fd = ends[1];
  lab.coordinator({"until:@done"});
  lab.node({"out:to nobody", "touch:@done"});
  BOOST_TEST(lab.run() == 0);
  BOOST_TEST(lab.log("node-0") == "to nobody\n");
  ::close(ends[1]);
}

BOOST_AUTO_TEST_CASE(OffspringIsNotWaitedForAndEndsWithItsProcess) {
  Lab lab;
  lab.coordinator({"until:@done"});
  lab.node({"offspring:@child", "out:parent", "touch:@done"});
  BOOST_TEST(lab.run() == 0);
  BOOST_TEST(lab.out() == "[node 0] parent\n");
  BOOST_TEST(lab.eventually_gone("child"));
}

BOOST_AUTO_TEST_CASE(ASigtermAsksTheCoordinatorToDrain) {
  Lab lab;
  lab.coordinator({"on-term:130", "pid:@up", "forever"});
  lab.node({"death:3", "on-term:0", "pid:@node", "forever"});
  const pid_t launcher = lab.start();
  lab.pid_in("up"), lab.pid_in("node");
  ::kill(launcher, SIGTERM);
  BOOST_TEST(lab.wait(launcher) == 130);
  BOOST_TEST(lab.eventually_gone("node"));
  BOOST_TEST(!contains(lab.err(), "What happened"));
}

BOOST_AUTO_TEST_CASE(WhoeverIgnoresSigtermIsKilledAfterTheGraceTime) {
  Lab lab;
  lab.options.keeper.grace = Moment{300};
  lab.coordinator({"on-term:ignore", "pid:@up", "forever"});
  lab.node({"on-term:ignore", "pid:@node", "forever"});
  const pid_t launcher = lab.start();
  lab.pid_in("up"), lab.pid_in("node");
  ::kill(launcher, SIGINT);
  BOOST_TEST(lab.wait(launcher) == 130);
  BOOST_TEST(lab.eventually_gone("up"));
  BOOST_TEST(lab.eventually_gone("node"));
}

BOOST_AUTO_TEST_CASE(ASecondSignalKillsAtOnce) {
  Lab lab;
  lab.options.keeper.grace = Moment{60000};
  lab.coordinator({"on-term:ignore", "pid:@up", "forever"});
  const pid_t launcher = lab.start();
  lab.pid_in("up");
  ::kill(launcher, SIGINT);
  BOOST_TEST(Lab::eventually([&] { return contains(lab.err(), "stopping"); }));
  ::kill(launcher, SIGINT);
  BOOST_TEST(lab.wait(launcher) == 130);
  BOOST_TEST(lab.eventually_gone("up"));
}

BOOST_AUTO_TEST_CASE(AKilledLauncherLeavesNobody) {
  Lab lab;
  lab.coordinator({"death:3", "pid:@up", "forever"});
  lab.node({"death:3", "on-term:ignore", "pid:@deaf", "forever"});  // ended by its own watch
  lab.node({"on-term:ignore", "pid:@untied", "forever"});           // knows of no death pipe
  lab.node({"death:3", "pid:@stopped", "signal:19", "forever"});    // can do nothing itself
  const pid_t launcher = lab.start();
  for (const char* name : {"up", "deaf", "untied", "stopped"}) BOOST_REQUIRE(lab.pid_in(name) > 0);
  ::kill(launcher, SIGKILL);
  BOOST_TEST(lab.wait(launcher) == 137);
  for (const char* name : {"up", "deaf", "untied", "stopped"}) BOOST_TEST(lab.eventually_gone(name), name);
}

BOOST_AUTO_TEST_CASE(AKilledLauncherLeavesNoOffspringOfWhomItsGuardEnds) {
  Lab lab;
  lab.coordinator({"death:3", "pid:@up", "forever"});
  lab.node({"offspring:@child", "pid:@untied", "forever"});
  const pid_t launcher = lab.start();
  for (const char* name : {"up", "untied", "child"}) BOOST_REQUIRE(lab.pid_in(name) > 0);
  ::kill(launcher, SIGKILL);
  BOOST_TEST(lab.wait(launcher) == 137);
  BOOST_TEST(lab.eventually_gone("child"));
}

BOOST_AUTO_TEST_SUITE_END()
