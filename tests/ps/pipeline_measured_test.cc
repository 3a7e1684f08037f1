#include <boost/test/unit_test.hpp>

#include <troupe/ps/pipeline/measured.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(pipeline_measured)

namespace {

Schedule schedule() { return make_schedule({.name = "1f1b", .stages = 2, .micro_batches = 4}).value(); }

const char* name_of(ActionKind kind) {
  return kind == ActionKind::forward          ? "forward"
         : kind == ActionKind::backward_input ? "backward input"
                                              : "backward weight";
}

// What stages would write that take exactly as long as the simulation says, in units of 10 us.
TraceContent traced(const Schedule& schedule, const std::vector<ChunkTimes>& times, std::vector<Step> steps) {
  const Timing timing = simulate(schedule, times, {.keep_spans = true});
  TraceContent trace;
  for (uint32_t stage = 0; stage < schedule.stages; ++stage) {
    TracedTrack track{"node 0", stage_track(stage, 0), {}};
    for (const Step step : steps)
      for (const ps::TimedAction& span : timing.spans[stage]) {
        if (span.action.kind > ActionKind::backward_weight) continue;
        const double at = 1000 * static_cast<double>(step);
        track.events.push_back({name_of(span.action.kind), at + 10 * span.begin, at + 10 * span.end, step,
                                span.action.micro_batch, span.action.chunk});
      }
    trace.tracks.push_back(std::move(track));
  }
  return trace;
}

const std::vector<ChunkTimes> kTimes{{1, 2, 1}, {2, 1, 1.5}};

}  // namespace

BOOST_AUTO_TEST_CASE(ATraceOfASimulationIsTheSimulation) {
  const Schedule s = schedule();
  const Timing simulated = simulate(s, kTimes, {.keep_spans = true});
  const auto measured = measured_timing(traced(s, kTimes, {3, 4, 5}), s, 0, 4);
  BOOST_REQUIRE_MESSAGE(measured.has_value(), (measured ? "" : measured.error().message));
  BOOST_TEST(measured->cost == simulated.cost * 1e-5, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(measured->makespan == simulated.makespan * 1e-5, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(measured->bubble_of_total() == simulated.bubble_of_total(), boost::test_tools::tolerance(1e-9));
  const std::vector<ChunkTimes> times = measured_times(s, *measured);
  for (size_t chunk = 0; chunk < times.size(); ++chunk) {
    BOOST_TEST(times[chunk].forward == kTimes[chunk].forward * 1e-5, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(times[chunk].backward_input == kTimes[chunk].backward_input * 1e-5, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(times[chunk].backward_weight == kTimes[chunk].backward_weight * 1e-5,
               boost::test_tools::tolerance(1e-9));
  }
  BOOST_TEST(simulate(s, times).cost == measured->cost, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(AStepThatIsNotWholeIsMissing) {
  const Schedule s = schedule();
  TraceContent trace = traced(s, kTimes, {3, 4, 5});
  BOOST_TEST(typical_step(trace, s, 0) == 4);
  trace.tracks[1].events.erase(trace.tracks[1].events.begin());  // the recording began within step 3
  BOOST_TEST(measured_timing(trace, s, 0, 3).error().message ==
             "the trace holds 11 of the 12 actions of stage 1 in step 3");
  BOOST_TEST(typical_step(trace, s, 0) == 5);
  BOOST_TEST(measured_timing(trace, s, 0, 9).error().message.find("holds 0 of the 12 actions of stage 0") !=
             std::string::npos);
  BOOST_TEST(measured_timing(trace, s, 1, 4).error().message == "the trace has no row \"stage 0 of replica 1\"");
  BOOST_TEST(typical_step(trace, s, 1) == -1);
}

BOOST_AUTO_TEST_CASE(TheComparisonHasBothBubbles) {
  const Schedule s = schedule();
  const ChunkTimes each{1, 1, 1};
  Timing timing = simulate(s, each);
  const std::string text = compare_text(s, timing, timing);
  BOOST_TEST(text.find("bubble of ideal time") != std::string::npos);
  BOOST_TEST(text.find("25.00        25.00  %") != std::string::npos, text);  // (p-1)/m
  BOOST_TEST(text.find("20.00        20.00  %") != std::string::npos, text);  // (p-1)/(m+p-1)
}

BOOST_AUTO_TEST_SUITE_END()
