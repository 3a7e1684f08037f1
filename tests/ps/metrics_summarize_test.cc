#include <boost/test/unit_test.hpp>

#include <troupe/ps/metrics/summarize.h>

using namespace troupe;
using namespace troupe::ps;

namespace {

/// fc1 is cut over two servers, fc2 is whole.
std::shared_ptr<const Layout> two_layers() {
  LayoutOptions options;
  options.servers = 2;
  options.slice_bytes = 256;
  return std::make_shared<const Layout>(
      make_layout({{"fc1", 128, {{"fc1.weight", Shape({128}), 0}}}, {"fc2", 16, {{"fc2.weight", Shape({16}), 0}}}},
                  {{Mode::ssp, 2}, {Mode::sync, 0}}, options));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(metrics_summarize)

BOOST_AUTO_TEST_CASE(LayersShowTheirPolicyAndServers) {
  const auto layers = layers_of(*two_layers(), 3);
  BOOST_REQUIRE(layers.size() == 2u);
  BOOST_TEST(layers[0].policy == "ssp(2)");
  BOOST_TEST(layers[0].parameters == 128);
  BOOST_TEST(layers[0].shards == 2);
  BOOST_TEST(layers[0].step_bytes == 2 * 4 * 128 * 3);  // gradients one way, weights the other, of three workers
  BOOST_TEST(layers[1].shards == 1);
}

BOOST_AUTO_TEST_CASE(ALayerByRowsSaysSo) {
  const Layout layout =
      make_layout({{"table", 64, {{"table.weight", {16, 4}, 0}}, 4}}, {{Mode::async, 0}}, LayoutOptions{});
  BOOST_TEST(layers_of(layout, 1).at(0).policy == "async, by rows");
}

BOOST_AUTO_TEST_CASE(TheFullestServerIsComparedWithTheMean) {
  // fc1's two slices of 256 bytes lie on a server each, fc2's 64 bytes on one of them.
  const std::string line = server_line(*two_layers());
  BOOST_TEST(line == "2 servers hold 320 B and 256 B; fullest to mean 1.11\n");
}

BOOST_AUTO_TEST_CASE(SumsBecomeMeans) {
  RunResult result;
  result.samples = 1000;
  result.last_epoch = {50.0, 80, 100};
  result.evaluation.stats = {30.0, 90, 120};
  const RunSummary s = summarize(result, 4);
  BOOST_TEST(s.train_loss.value() == 0.5);
  BOOST_TEST(s.test_accuracy.value() == 0.75);
  BOOST_TEST(s.test_loss.value() == 0.25);
  BOOST_TEST(s.samples_per_second == 250.0);
}

BOOST_AUTO_TEST_CASE(ARunWithoutAnEvaluationHasNoAccuracy) {
  BOOST_TEST(!summarize(RunResult{}, 0).test_accuracy.has_value());
}

BOOST_AUTO_TEST_CASE(CountersFindTheirLayer) {
  RunResult result;
  result.layout = two_layers();
  LayerCounters counters;
  counters.layer = 1;
  counters.pushed_bytes = 77;
  counters.lag_histogram = {0, 3};
  result.layers = {counters};
  const RunSummary s = summarize(result, 1);
  BOOST_TEST(s.layers[0].pushed_bytes == 0);
  BOOST_TEST(s.layers[1].pushed_bytes == 77);
  BOOST_TEST(s.layers[1].staleness.max() == 1);
}

BOOST_AUTO_TEST_CASE(TheStageLineNamesRunsOfLayers) {
  Layout layout;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) layout.layers.push_back({name, 1, {}});
  BOOST_TEST(stage_line(layout) == "");
  layout.stages = 2;
  layout.stage_of = {0, 0, 0, 1, 1, 1, 1};
  BOOST_TEST(stage_line(layout) == "stage 0: a to c; stage 1: d to g\n");
  layout.stage_of = {0, 1, 1, 0, 0, 0, 1};
  BOOST_TEST(stage_line(layout) == "stage 0: a, d to f; stage 1: b, c, g\n");
}

BOOST_AUTO_TEST_SUITE_END()
