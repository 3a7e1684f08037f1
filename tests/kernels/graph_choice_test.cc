#include <boost/test/unit_test.hpp>

#include <troupe/kernels/nn/graph_choice.h>

using namespace troupe::nn;
using Action = GraphChoice::Action;

BOOST_AUTO_TEST_SUITE(graph_choice)

namespace {

/// As its caller does when every capture works: "rrcpp" of what was done with the steps.
std::string done(GraphChoice& graphs, const std::vector<GraphChoice::Step>& steps) {
  std::string text;
  for (const auto& step : steps) {
    const GraphChoice::Choice choice = graphs.next(step);
    if (choice.action == Action::capture) graphs.captured(choice.slot);
    text += choice.action == Action::run ? 'r' : choice.action == Action::capture ? 'c' : 'p';
  }
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ASteadyStepIsRunTwiceCapturedOnceAndReplayed) {
  GraphChoice graphs;
  BOOST_TEST(done(graphs, std::vector<GraphChoice::Step>(6, {32, 1, 2})) == "rrcppp");
  BOOST_TEST(graphs.replays() == 3);
}

BOOST_AUTO_TEST_CASE(OneNumberThatDiffersMakesItAnotherStep) {
  GraphChoice graphs;
  done(graphs, std::vector<GraphChoice::Step>(3, {32, 100, 200}));
  const std::vector<GraphChoice::Step> others = {{31, 100, 200}, {32, 101, 200}, {32, 100}, {32, 100, 200, 0}};
  for (const GraphChoice::Step& other : others)
    BOOST_TEST(done(graphs, {other}) == "r");
}

BOOST_AUTO_TEST_CASE(WeightsThatLieInTwoPlacesInTurnAreTwoCaptures) {
  GraphChoice graphs;
  const GraphChoice::Step a = {32, 1}, b = {32, 2};
  BOOST_TEST(done(graphs, {a, b, a, b, a, b, a, b, a}) == "rrrrccppp");
}

BOOST_AUTO_TEST_CASE(AShortBatchNowAndThenDisturbsNothing) {
  GraphChoice graphs;
  const GraphChoice::Step whole = {32}, rest = {5};
  BOOST_TEST(done(graphs, {whole, whole, whole, rest, whole, whole, rest, whole}) == "rrcrpprp");
}

BOOST_AUTO_TEST_CASE(TheStepUsedLongestAgoMakesRoom) {
  GraphChoice graphs;
  done(graphs, std::vector<GraphChoice::Step>(3, {0}));
  for (uint64_t other = 1; other < GraphChoice::kMostSteps; ++other) BOOST_TEST(!graphs.next({other}).drops);
  const GraphChoice::Choice next = graphs.next({99});
  BOOST_TEST(next.drops);
  BOOST_TEST(next.slot == 0u);
  BOOST_TEST(done(graphs, {{0}}) == "r");  // it is a new one now
}

BOOST_AUTO_TEST_CASE(ACaptureThatBecameInvalidIsWarmedUpAndMadeAgain) {
  GraphChoice graphs;
  const std::vector<GraphChoice::Step> steps(4, {32});
  BOOST_TEST(done(graphs, steps) == "rrcp");
  graphs.invalidate(graphs.next({32}).slot);
  BOOST_TEST(done(graphs, steps) == "rrcp");
}

BOOST_AUTO_TEST_CASE(WhoCapturesOftenForFewReplaysGivesUpAndSaysWhy) {
  GraphChoice graphs;
  std::string text;
  for (uint64_t step = 0; step < 20; ++step) text += done(graphs, std::vector<GraphChoice::Step>(4, {step}));
  BOOST_TEST(text.starts_with("rrcprrcp"));
  BOOST_TEST(graphs.captures() == GraphChoice::kMostCaptures);
  BOOST_TEST(graphs.why_not() == "steps differ too often: 8 captures were replayed 8 times");
  BOOST_TEST(done(graphs, std::vector<GraphChoice::Step>(5, {0})) == "rrrrr");
}

BOOST_AUTO_TEST_CASE(TheFirstReasonStays) {
  GraphChoice graphs;
  graphs.give_up("a copy from host memory");
  graphs.give_up("something else");
  BOOST_TEST(graphs.why_not() == "a copy from host memory");
  BOOST_TEST(done(graphs, std::vector<GraphChoice::Step>(4, {1})) == "rrrr");
}

BOOST_AUTO_TEST_SUITE_END()
