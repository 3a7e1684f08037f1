#include <boost/test/unit_test.hpp>

#include <string>
#include <thread>
#include <vector>

#include <troupe/kernels/base/trace.h>

using namespace troupe;

namespace {

TraceEvent::Time at(int64_t ns) { return TraceEvent::Time(std::chrono::nanoseconds(ns)); }

TraceEvent event(const char* name, int64_t begin_ns, int64_t end_ns) {
  return {.name = name, .begin = at(begin_ns), .end = at(end_ns)};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(trace)

BOOST_AUTO_TEST_CASE(EventsComeBackInTheOrderRecorded) {
  Trace trace;
  const Track track = trace.track("a");
  for (int64_t i = 0; i < 2000; ++i) track.record(event("step", i, i + 1));
  const auto rows = trace.rows();
  BOOST_REQUIRE(rows.size() == 1u);
  BOOST_TEST(rows[0].track == "a");
  BOOST_REQUIRE(rows[0].events.size() == 2000u);
  for (int64_t i = 0; i < 2000; ++i) BOOST_REQUIRE((rows[0].events[static_cast<size_t>(i)].begin == at(i)));
}

BOOST_AUTO_TEST_CASE(AnEmptyTrackRecordsNothing) {
  const Track off;
  BOOST_TEST(!off.wants(0));
  off.record(event("lost", 0, 1));
}

BOOST_AUTO_TEST_CASE(OnlyStepsOfTheRangeAreWanted) {
  Trace trace({.first_step = 3, .last_step = 4});
  const Track track = trace.track("a");
  BOOST_TEST(!track.wants(2));
  BOOST_TEST(track.wants(3));
  BOOST_TEST(track.wants(4));
  BOOST_TEST(!track.wants(5));
}

BOOST_AUTO_TEST_CASE(ASpanLastsToTheEndOfItsScope) {
  int64_t now_ns = 10;
  Trace trace({.now = [&] { return at(now_ns++); }});
  const Track track = trace.track("a");
  { const Span span(track, "forward", 7, {"layer", 2}); }
  const TraceEvent recorded = trace.rows()[0].events.at(0);
  BOOST_TEST(std::string(recorded.name) == "forward");
  BOOST_TEST((recorded.begin == at(10) && recorded.end == at(11)));
  BOOST_TEST(recorded.args[0].value == 7);
  BOOST_TEST(std::string(recorded.args[1].name) == "layer");
}

BOOST_AUTO_TEST_CASE(ASpanOfAnotherStepIsNotRecorded) {
  Trace trace({.first_step = 3});
  const Track track = trace.track("a");
  { const Span span(track, "forward", 2); }
  BOOST_TEST(trace.rows()[0].events.empty());
}

BOOST_AUTO_TEST_CASE(TracksOfOneNameAreOneRow) {
  Trace trace;
  trace.track("a").record(event("first", 0, 1));
  trace.track("b").record(event("other", 0, 1));
  trace.track("a").record(event("second", 2, 3));
  const auto rows = trace.rows();
  BOOST_REQUIRE(rows.size() == 2u);
  BOOST_TEST(rows[0].events.size() == 2u);
  BOOST_TEST(rows[1].track == "b");
}

BOOST_AUTO_TEST_CASE(WhatFindsNoRoomIsCounted) {
  Trace trace({.max_events = 512});
  const Track track = trace.track("a");
  for (int64_t i = 0; i < 600; ++i) track.record(event("step", i, i));
  BOOST_TEST(trace.rows()[0].events.size() == 512u);
  BOOST_TEST(trace.lost() == 88);
}

BOOST_AUTO_TEST_CASE(ManyThreadsRecordWhileAnotherReads) {
  Trace trace;
  std::vector<std::thread> writers;
  for (int w = 0; w < 3; ++w)
    writers.emplace_back([track = trace.track(std::to_string(w))] {
      for (int64_t i = 0; i < 3000; ++i) track.record(event("step", i, i));
    });
  size_t seen = 0;
  while (seen < 9000) {
    seen = 0;
    for (const auto& row : trace.rows()) {
      for (size_t i = 0; i < row.events.size(); ++i)
        BOOST_REQUIRE((row.events[i].begin == at(static_cast<int64_t>(i))));
      seen += row.events.size();
    }
  }
  for (std::thread& writer : writers) writer.join();
}

BOOST_AUTO_TEST_CASE(KeptNamesStayWhereTheyAre) {
  Trace trace;
  const char* name = trace.keep("fc1");
  for (int i = 0; i < 100; ++i) trace.keep(std::to_string(i));
  BOOST_TEST(std::string(name) == "fc1");
  BOOST_TEST(trace.keep("fc1") == name);
}

BOOST_AUTO_TEST_SUITE_END()
