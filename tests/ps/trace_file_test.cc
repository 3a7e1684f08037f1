#include <boost/test/unit_test.hpp>

#include <troupe/ps/metrics/trace_flow.h>
#include <troupe/ps/metrics/trace_summary.h>

#include <tests/support/temp_folder.h>

using namespace troupe;
using namespace troupe::ps;
using troupe::test::TempFolder;

namespace {

TraceEvent event(const char* name, int64_t begin_us, int64_t end_us, int64_t step) {
  const auto at = [](int64_t us) { return TraceEvent::Time(std::chrono::microseconds(us)); };
  return {.name = name, .begin = at(begin_us), .end = at(end_us), .args = {{{"step", step}}}};
}

TracedTrack track(std::vector<TracedEvent> events) { return {"run", "a", std::move(events)}; }

}  // namespace

BOOST_AUTO_TEST_SUITE(trace_file)

BOOST_AUTO_TEST_CASE(WhatWasWrittenIsReadBack) {
  const TempFolder folder;
  Trace trace;
  trace.track("worker 0").record(event("forward", 100, 250, 3));
  BOOST_REQUIRE(write_trace(folder / "trace.json", trace, {2, "node 2"}));
  const auto read = read_trace(folder / "trace.json");
  BOOST_REQUIRE(read);
  BOOST_REQUIRE(read->tracks.size() == 1u);
  BOOST_TEST(read->tracks[0].process == "node 2");
  BOOST_TEST(read->tracks[0].name == "worker 0");
  const TracedEvent& got = read->tracks[0].events.at(0);
  BOOST_TEST(got.name == "forward");
  BOOST_TEST(got.begin_us == 100.0);
  BOOST_TEST(got.end_us == 250.0);
  BOOST_TEST(got.step == 3);
}

BOOST_AUTO_TEST_CASE(AnArrowIsWrittenAtBothItsEnds) {
  const TempFolder folder;
  Trace trace;
  TraceEvent push = event("push", 1, 2, 0), apply = event("apply", 5, 6, 0);
  push.flow_out = apply.flow_in = 0x1f;
  trace.track("a").record(push);
  trace.track("b").record(apply);
  BOOST_REQUIRE(write_trace(folder / "trace.json", trace, {}));
  const std::string text = folder.read("trace.json");
  BOOST_TEST(text.find(R"({"ph":"s","id":"0x1f","pid":0,"tid":1,"ts":1.999,)") != std::string::npos);
  BOOST_TEST(text.find(R"({"ph":"f","bp":"e","id":"0x1f","pid":0,"tid":2,"ts":5.000,)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(AllFilesOfARunAreRead) {
  const TempFolder folder;
  Trace trace;
  trace.track("a").record(event("step", 0, 1, 0));
  BOOST_REQUIRE(write_trace(folder / "trace-node-1.json", trace, {1, "node 1"}));
  BOOST_REQUIRE(write_trace(folder / "trace-node-2.json", trace, {2, "node 2"}));
  const auto read = read_run_traces(folder.path());
  BOOST_REQUIRE(read);
  BOOST_TEST(read->tracks.size() == 2u);
}

BOOST_AUTO_TEST_CASE(ARunWithoutATraceIsMissingOne) {
  const TempFolder folder;
  const auto read = read_run_traces(folder.path());
  BOOST_REQUIRE(!read);
  BOOST_CHECK(read.error().kind == ErrorKind::missing);
  BOOST_TEST(read.error().message.find("metrics.trace=true") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(AFileThatIsNoTraceIsRefused) {
  const TempFolder folder;
  for (const char* text : {"", "[]", "{\"traceEvents\":[{\"ph\":1}]}", "{\"traceEvents\":[]}"}) {
    const auto read = read_trace(folder.write("trace.json", text));
    BOOST_REQUIRE(!read);
    BOOST_CHECK(read.error().kind == ErrorKind::corrupt);
  }
}

BOOST_AUTO_TEST_CASE(EventsInsideOthersAreBusyOnce) {
  const auto summary = summarize_trace({{track({{"outer", 0, 10, 0}, {"inner", 2, 4, 0}, {"next", 15, 20, 1}})}, 0});
  BOOST_TEST(summary.at(0).busy_us == 15.0);
  BOOST_TEST(summary[0].window_us == 20.0);
}

BOOST_AUTO_TEST_CASE(AGapNamesWhatIsAroundIt) {
  const auto summary = summarize_trace({{track({{"a", 0, 10, 4}, {"b", 11, 12, 5}, {"c", 20, 21, 6}})}, 0}, 1);
  BOOST_REQUIRE(summary.at(0).gaps.size() == 1u);
  const TrackSummary::Gap& gap = summary[0].gaps[0];
  BOOST_TEST(gap.length_us() == 8.0);
  BOOST_TEST(gap.after == "b");
  BOOST_TEST(gap.before == "c");
  BOOST_TEST(gap.step == 5);
}

BOOST_AUTO_TEST_CASE(TheWindowIsOfAllTracks) {
  const auto summary = summarize_trace({{track({{"a", 0, 10, 0}}), track({{"b", 30, 40, 0}})}, 0});
  BOOST_TEST(summary.at(0).busy_share() == 0.25);
}

BOOST_AUTO_TEST_CASE(LostEventsAreSaid) {
  const auto tracks = summarize_trace({{track({{"a", 0, 1000, 0}})}, 0});
  BOOST_TEST(trace_text(tracks, 0).find("lost") == std::string::npos);
  BOOST_TEST(trace_text(tracks, 1234).find("1,234 events were lost") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(ArrowsOfDifferentPushesDiffer) {
  BOOST_TEST(flow_id(Flow::push, 0, 1, 2) == flow_id(Flow::push, 0, 1, 2));
  BOOST_TEST(flow_id(Flow::push, 0, 1, 2) != flow_id(Flow::push, 1, 0, 2));
  BOOST_TEST(flow_id(Flow::push, 0, 1, 2) != flow_id(Flow::push, 0, 1, 3));
  BOOST_TEST(flow_id(Flow::push, 0, 1, 2) != flow_id(Flow::activation, 0, 1, 2));
}

BOOST_AUTO_TEST_SUITE_END()
