#include <boost/test/unit_test.hpp>

#include <troupe/ps/pipeline/draw_schedule.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(pipeline_draw)

namespace {

Schedule made(const std::string& name, uint32_t stages, uint32_t micro_batches, uint32_t chunks = 1) {
  auto schedule = make_schedule({.name = name, .stages = stages, .micro_batches = micro_batches, .chunks = chunks});
  BOOST_REQUIRE_MESSAGE(schedule, (schedule ? "" : schedule.error().message));
  return *schedule;
}

Timing timed(const Schedule& schedule, const ChunkTimes& times = {}) {
  return simulate(schedule, times, {.keep_spans = true});
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

BOOST_AUTO_TEST_CASE(OneForwardOneBackwardIsDrawnAsInThePapers) {
  const Schedule s = made("1f1b", 2, 2);
  BOOST_TEST(draw_text(s, timed(s)) ==
             "stage 0 | F0 F1 .  .  I0 W0 .  I1 W1\n"
             "stage 1 | .  F0 I0 W0 F1 I1 W1 .  .\n");
}

BOOST_AUTO_TEST_CASE(ZeroBubbleFillsItsColumns) {
  const Schedule s = made("zb-h1", 3, 3);
  BOOST_TEST(draw_text(s, timed(s)) ==
             "stage 0 | F0 F1 F2 .  .  I0 W0 I1 W1 I2 W2\n"
             "stage 1 | .  F0 F1 .  I0 F2 I1 W0 I2 W1 W2\n"
             "stage 2 | .  .  F0 I0 F1 I1 F2 I2 W0 W1 W2\n");
}

BOOST_AUTO_TEST_CASE(LongerActionsTakeMoreColumns) {
  const Schedule s = made("gpipe", 1, 1);
  BOOST_TEST(draw_text(s, timed(s, {1, 2, 1})) == "stage 0 | F0 I0 -  W0\n");
}

BOOST_AUTO_TEST_CASE(WhatIsLeftOutIsSaid) {
  const Schedule s = made("gpipe", 1, 10);
  BOOST_TEST(draw_text(s, timed(s), 3) == "stage 0 | F0 F1 F2\n... and 27 more columns\n");
}

BOOST_AUTO_TEST_CASE(ThePictureHasEveryAction) {
  const Schedule s = made("interleaved", 2, 4, 2);
  const std::string svg = draw_svg(s, timed(s, {1.5, 2, 0.7}));
  BOOST_TEST(svg.starts_with("<svg xmlns="));
  BOOST_TEST(svg.ends_with("</svg>\n"));
  BOOST_TEST(count(svg, "<rect x=") == 3u * 4 * 4);
  BOOST_TEST(count(svg, "% of total time") == 1u);
  BOOST_TEST(count(svg, "% of ideal time") == 1u);
}

BOOST_AUTO_TEST_CASE(TwoRunsStandBelowEachOtherOnOneAxis) {
  const Schedule s = made("1f1b", 2, 2);
  const Timing fast = timed(s), slow = timed(s, {2, 2, 2});
  const DrawnTiming both[] = {{"measured", &slow}, {"planned", &fast}};
  const std::string svg = draw_svg(s, both);
  BOOST_TEST(count(svg, "<rect x=") == 2u * 2 * 2 * 3);
  BOOST_TEST(count(svg, ">stage 1<") == 2u);
  BOOST_TEST(svg.find("measured; bubble") < svg.find("planned; bubble"));
  // An action of the slower run is twice as wide.
  const auto width = [&](size_t from) {
    const size_t at = svg.find(" width=\"", svg.find("<rect x=", from)) + 8;
    return std::stod(svg.substr(at));
  };
  BOOST_TEST(width(0) == 2 * width(svg.find("planned; bubble")));
}

BOOST_AUTO_TEST_CASE(TheLegendNamesTheColours) {
  const Schedule s = made("gpipe", 1, 1);
  const std::string svg = draw_svg(s, timed(s));
  for (const char* words : {">forward<", ">gradient of the input<", ">gradient of the weights<"})
    BOOST_TEST(count(svg, words) == 1u);
}

BOOST_AUTO_TEST_CASE(ANameIsEscaped) {
  Schedule s = made("gpipe", 1, 1);
  s.name = "a<b&c";
  BOOST_TEST(count(draw_svg(s, timed(s)), "a&lt;b&amp;c") == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
