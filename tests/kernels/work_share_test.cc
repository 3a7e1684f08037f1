#include <boost/test/unit_test.hpp>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <troupe/kernels/collective/work_share.h>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(work_share)

BOOST_AUTO_TEST_CASE(EveryTileRunsOnceHoweverManyThreadsHelp) {
  WorkShare share;
  constexpr int64_t kJobs = 50, kTiles = 40;
  std::vector<std::vector<std::atomic<int>>> runs(kJobs);
  std::atomic<int64_t> done{0};
  for (int64_t j = 0; j < kJobs; ++j) {
    std::vector<std::atomic<int>>& mine = runs[static_cast<size_t>(j)] = std::vector<std::atomic<int>>(kTiles);
    share.add({.tiles = kTiles,
               .run = [&mine](int64_t tile) { ++mine[static_cast<size_t>(tile)]; },
               .done = [&](const Status& status) { done += status ? 1 : 0; }});
  }
  std::vector<std::thread> helpers;
  for (int i = 0; i < 3; ++i) helpers.emplace_back([&] { share.help(); });
  for (std::thread& helper : helpers) helper.join();
  BOOST_TEST(done == kJobs);
  for (const auto& job : runs)
    for (const auto& tile : job) BOOST_REQUIRE(tile == 1);
}

BOOST_AUTO_TEST_CASE(AJobIsDoneAfterItsLastTile) {
  WorkShare share;
  int64_t tiles = 0, seen = 0;
  share.add({.tiles = 3, .run = [&](int64_t) { ++tiles; }, .done = [&](const Status&) { seen = tiles; }});
  share.help();
  BOOST_TEST(seen == 3);
}

BOOST_AUTO_TEST_CASE(ATileThatThrowsFailsItsJobAlone) {
  WorkShare share;
  std::string failure;
  bool second = false;
  share.add({.tiles = 3,
             .run = [](int64_t tile) { if (tile == 1) throw std::runtime_error("tile 1"); },
             .done = [&](const Status& status) { failure = status ? "" : status.error().message; }});
  share.add({.run = [](int64_t) {}, .done = [&](const Status& status) { second = bool(status); }});
  share.help();
  BOOST_TEST(failure == "tile 1");
  BOOST_TEST(second);
}

BOOST_AUTO_TEST_CASE(AJobThatAddsAnotherIsFollowedByIt) {
  WorkShare share;
  bool second = false;
  share.add(
      {.run = [](int64_t) {},
       .done =
           [&](const Status&) { share.add({.run = [&](int64_t) { second = true; }, .done = [](const Status&) {}}); }});
  share.help();
  BOOST_TEST(second);
}

BOOST_AUTO_TEST_CASE(WhatAThreadDidTogetherIsOneEvent) {
  WorkShare share;
  Trace trace;
  share.add({.tiles = 5, .run = [](int64_t) {}, .done = [](const Status&) {}, .name = "reduce", .step = 3});
  share.help(trace.track("a"));
  const auto events = trace.rows().at(0).events;
  BOOST_TEST_REQUIRE(events.size() == 1u);
  BOOST_TEST(std::string(events[0].name) == "reduce");
  BOOST_TEST(events[0].args[0].value == 3);
}

BOOST_AUTO_TEST_SUITE_END()
