#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>

#include <troupe/kernels/base/random.h>
#include <troupe/ps/pipeline/check_schedule.h>
#include <troupe/ps/pipeline/schedule_csv.h>
#include <troupe/ps/pipeline/simulate.h>

using namespace troupe;
using namespace troupe::ps;
using boost::test_tools::tolerance;

BOOST_AUTO_TEST_SUITE(pipeline_simulate)

namespace {

Schedule made(const std::string& name, uint32_t stages, uint32_t micro_batches, uint32_t chunks = 1) {
  auto schedule = make_schedule({.name = name, .stages = stages, .micro_batches = micro_batches, .chunks = chunks});
  BOOST_REQUIRE_MESSAGE(schedule, (schedule ? "" : schedule.error().message));
  return *schedule;
}

/// Of a whole stage, spread over the chunks of one.
Timing timed(const std::string& name, uint32_t stages, uint32_t micro_batches, ChunkTimes stage, uint32_t chunks = 1) {
  stage.forward /= chunks, stage.backward_input /= chunks, stage.backward_weight /= chunks;
  return simulate(made(name, stages, micro_batches, chunks), stage);
}

double idle_of(const Timing& timing, uint32_t stage) { return timing.makespan - timing.busy[stage]; }

uint32_t chunks_of(const std::string& name) { return name == "zb-v" || name == "interleaved" ? 2 : 1; }

/// arXiv 2401.10241, table 9 (ms) and table 5.
struct Published {
  uint32_t p, m;
  double forward, input, weight, transfer;
  double one_f_one_b, interleaved, zb_h1, zb_h2;
  uint32_t chunks;
};

const std::vector<Published> kPublished = {
    {8, 24, 18.522, 18.086, 9.337, .601, .2431, .1055, .1585, .1083, 3},
    {8, 32, 18.513, 18.086, 9.331, .626, .1985, .0818, .1242, .0837, 3},
    {8, 64, 18.546, 18.097, 9.321, .762, .1240, .0443, .0674, .0444, 3},
    {8, 24, 29.718, 29.444, 19.927, .527, .2347, .0808, .1323, .0698, 4},
    {8, 32, 29.802, 29.428, 19.530, .577, .1898, .0628, .1045, .0559, 4},
    {8, 64, 29.935, 29.621, 19.388, .535, .1091, .0320, .0554, .0294, 4},
    {16, 48, 11.347, 11.248, 8.132, .377, .2552, .1104, .1397, .0672, 3},
    {16, 64, 11.307, 11.254, 8.101, .379, .2082, .0852, .1088, .0516, 3},
    {16, 128, 11.325, 11.308, 8.109, .378, .1251, .0445, .0576, .0266, 3},
};

}  // namespace

BOOST_AUTO_TEST_CASE(BubblesAreTheClosedForms) {
  const ChunkTimes t{.forward = 3, .backward_input = 4, .backward_weight = 2};
  const double all = 9;
  for (uint32_t p = 1; p <= 16; ++p) {
    const uint32_t m = 4 * p;
    for (const char* name : {"gpipe", "1f1b"}) {
      const Timing timing = timed(name, p, m, t);
      for (uint32_t stage = 0; stage < p; ++stage)
        BOOST_TEST(idle_of(timing, stage) == (p - 1) * all, tolerance(1e-12));
      BOOST_TEST(timing.bubble_of_ideal() == (p - 1.0) / m, tolerance(1e-12));
      BOOST_TEST(timing.bubble_of_total() == (p - 1.0) / (m + p - 1), tolerance(1e-12));
    }
    BOOST_TEST(timed("sequential", p, m, t).makespan == m * p * all, tolerance(1e-12));
    BOOST_TEST(timed("zb-h1", p, m, t).bubble() == (p - 1) * (3 + 4 - 2), tolerance(1e-12));
    BOOST_TEST(timed("zb-h2", p, m, t).bubble() == (p - 1) * (3 + 4 - 2 * 2), tolerance(1e-12));
    for (uint32_t v = 2; v <= 4; ++v)
      BOOST_TEST(timed("interleaved", p, m, t, v).bubble() == (p - 1) * all / v, tolerance(1e-9));
    BOOST_TEST(timed("zb-v", p, m, {2, 2, 2}, 2).bubble() == 0.0);
  }
}

BOOST_AUTO_TEST_CASE(WithUnitTimesTheBubblesAreThoseOfTheTable) {
  BOOST_TEST(timed("gpipe", 4, 8, {}).bubble() == 9.0);
  BOOST_TEST(timed("1f1b", 4, 8, {}).bubble() == 9.0);
  BOOST_TEST(timed("zb-h1", 4, 8, {}).bubble() == 3.0);
  const Timing h2 = timed("zb-h2", 4, 8, {});
  BOOST_TEST(h2.bubble() == 0.0);
  BOOST_TEST(h2.makespan - h2.ideal() == 3.0);
}

BOOST_AUTO_TEST_CASE(FewerMicroBatchesThanStagesTakeTheSameForm) {
  for (uint32_t p = 1; p <= 8; ++p)
    for (uint32_t m = 1; m <= p; ++m) BOOST_TEST(timed("1f1b", p, m, {}).makespan == (m + p - 1) * 3.0);
}

BOOST_AUTO_TEST_CASE(BubbleRatesAreThePublishedOnes) {
  for (const Published& row : kPublished) {
    const ChunkTimes times{row.forward, row.input, row.weight, row.transfer};
    const auto rate = [&](const char* name) { return timed(name, row.p, row.m, times).bubble_of_total(); };
    BOOST_TEST(std::abs(rate("1f1b") - row.one_f_one_b) < 0.00005 + 1e-9, row.p << ' ' << row.m << ' ' << rate("1f1b"));
    BOOST_TEST(std::abs(rate("zb-h1") - row.zb_h1) < 0.00005 + 1e-9, row.p << ' ' << row.m << ' ' << rate("zb-h1"));
    BOOST_TEST(std::abs(rate("zb-h2") - row.zb_h2) < 0.00005 + 1e-9, row.p << ' ' << row.m << ' ' << rate("zb-h2"));
  }
}

BOOST_AUTO_TEST_CASE(InterleavedIsWithinItsTransfers) {
  for (const Published& row : kPublished) {
    const ChunkTimes times{row.forward, row.input, row.weight, row.transfer};
    const Timing timing = timed("interleaved", row.p, row.m, times, row.chunks);
    // The cost that the published rate stands for.
    const double published = timing.ideal() / (1 - row.interleaved);
    const double rounding = timing.cost * 0.00005 / (1 - row.interleaved);
    BOOST_TEST(timing.cost >= published - rounding, row.p << ' ' << row.m << ' ' << timing.bubble_of_total());
    BOOST_TEST(timing.cost <= published + row.p * row.transfer + rounding,
               row.p << ' ' << row.m << ' ' << timing.cost << ' ' << published);
  }
}

BOOST_AUTO_TEST_CASE(WorkConservingRunsEverythingWithinTheSchedulesMemory) {
  Random random(7);
  for (const std::string& name : schedule_names())
    for (uint32_t p = 1; p <= 6; ++p) {
      const Schedule s = made(name, p, 2 * p, chunks_of(name));
      std::vector<ChunkTimes> times(s.chunks);
      for (ChunkTimes& t : times)
        t = {1 + random.uniform(), 1 + random.uniform(), 1 + random.uniform(), random.uniform()};
      const Timing timing = simulate(s, times, {.rule = StageRule::work_conserving, .keep_spans = true});
      Schedule ran = s;
      for (uint32_t stage = 0; stage < p; ++stage) {
        BOOST_TEST(timing.spans[stage].size() == s.actions[stage].size());
        for (size_t k = 0; k < ran.actions[stage].size(); ++k) ran.actions[stage][k] = timing.spans[stage][k].action;
      }
      const auto status = check(ran);
      BOOST_TEST(status.has_value(), name << (status ? "" : status.error().message));
      const std::vector<ActivationSizes> sizes(s.chunks, {10, 4});
      const auto planned = peak_activations(s, sizes), held = peak_activations(ran, sizes);
      for (uint32_t stage = 0; stage < p; ++stage)
        BOOST_TEST(held[stage] <= planned[stage] + 1e-9, name << ' ' << stage);
    }
}

BOOST_AUTO_TEST_CASE(WorkConservingFillsAWaitWithWhatIsReady) {
  // Stage 0 waits for the second gradient from 4 to 6, and could have run W0 meanwhile.
  const auto s = parse_schedule_csv("F0,F1,I0,I1,W0,W1\nF0,I0,W0,F1,I1,W1\n", "late weights");
  BOOST_REQUIRE_MESSAGE(s, (s ? "" : s.error().message));
  BOOST_TEST(simulate(*s, ChunkTimes{}).makespan == 9.0);
  BOOST_TEST(simulate(*s, ChunkTimes{}, {.rule = StageRule::work_conserving}).makespan == 8.0);
}

BOOST_AUTO_TEST_CASE(WithEqualTimesThereIsNothingToConserve) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2", "pipedream"}) {
    const Schedule s = made(name, 4, 8);
    BOOST_TEST(
        simulate(s, ChunkTimes{}).makespan == simulate(s, ChunkTimes{}, {.rule = StageRule::work_conserving}).makespan,
        name);
  }
}

BOOST_AUTO_TEST_CASE(AllReducesRunBesideTheBackwardsOfOtherChunks) {
  const ChunkTimes times{.forward = 1, .backward_input = 1, .backward_weight = 1, .all_reduce = 2, .step = 0.5};
  // One stage, one chunk: nothing to hide behind.
  BOOST_TEST(simulate(made("1f1b", 1, 2), times).makespan == 2 * 3 + 2 + 0.5);
  // Two chunks of one stage: one's all-reduce hides behind the other's backward, its step behind the other's
  // all-reduce.
  BOOST_TEST(simulate(made("zb-v", 1, 1, 2), times).makespan == 6 + 2 + 0.5);
}

BOOST_AUTO_TEST_CASE(StagesOfDifferentTimesWaitForTheSlowest) {
  const Schedule s = made("1f1b", 3, 30);
  const Timing timing = simulate(s, {{1, 1, 1}, {2, 2, 2}, {1, 1, 1}});
  BOOST_TEST(timing.ideal() == 30 * 6.0);
  BOOST_TEST(timing.makespan == 1 + 30 * 6.0 + 1 + 2);  // the fill, a wait for the first gradient, the drain
}

BOOST_AUTO_TEST_CASE(TenThousandStagesAreTimed) {
  const Timing timing = timed("1f1b", 10'000, 100, {});
  BOOST_TEST(timing.makespan == (100 + 10'000 - 1) * 3.0);
}

BOOST_AUTO_TEST_SUITE_END()
