#include <boost/test/unit_test.hpp>

#include <troupe/ps/pipeline/check_schedule.h>
#include <troupe/ps/pipeline/schedule.h>
#include <troupe/ps/pipeline/schedule_csv.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(pipeline_schedule)

namespace {

Schedule made(const std::string& name, uint32_t stages, uint32_t micro_batches, uint32_t chunks = 1) {
  auto schedule = make_schedule({.name = name, .stages = stages, .micro_batches = micro_batches, .chunks = chunks});
  BOOST_REQUIRE_MESSAGE(schedule, (schedule ? "" : schedule.error().message));
  return *schedule;
}

std::string drawn(const Schedule& schedule, const std::vector<Action>& list) {
  std::string text;
  for (const Action& action : list) text += (text.empty() ? "" : " ") + action_text(schedule, action);
  return text;
}

std::string drawn(const Schedule& schedule, uint32_t stage) { return drawn(schedule, schedule.actions[stage]); }

std::string error_of(const ScheduleOptions& options) {
  const auto schedule = make_schedule(options);
  return schedule ? "" : schedule.error().message;
}

std::string csv_error(std::string_view text) {
  const auto schedule = parse_schedule_csv(text, "s.csv");
  return schedule ? "" : schedule.error().message;
}

uint32_t chunks_of(const std::string& name) { return name == "zb-v" || name == "interleaved" ? 2 : 1; }

/// Peak activations in units of a stage's micro-batch, where a stage's chunks share M_B and M_W equally.
std::vector<double> peaks(const Schedule& s, double m_b, double m_w) {
  const double share = static_cast<double>(s.stages) / s.chunks;
  return peak_activations(s, std::vector<ActivationSizes>(s.chunks, {m_b * share, m_w * share}));
}

}  // namespace

BOOST_AUTO_TEST_CASE(TheOrdersAreThoseOfThePapers) {
  const Schedule gpipe = made("gpipe", 2, 3), one = made("1f1b", 2, 3);
  BOOST_TEST(drawn(gpipe, 0) == "F0 F1 F2 I0 W0 I1 W1 I2 W2 R2 S2");
  BOOST_TEST(drawn(one, 0) == "F0 F1 I0 W0 F2 I1 W1 I2 W2 R2 S2");
  BOOST_TEST(drawn(one, 1) == "F0 I0 W0 F1 I1 W1 F2 I2 W2 R2 S2");
  BOOST_TEST(drawn(made("sequential", 2, 2), 0) == "F0 I0 W0 F1 I1 W1 R1 S1");
  BOOST_TEST(drawn(made("zb-h1", 3, 4), 1) == "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3 R3 S3");
  BOOST_TEST(drawn(made("zb-h2", 3, 5), 1) == "F0 F1 F2 I0 F3 I1 F4 I2 W0 I3 W1 I4 W2 W3 W4 R4 S4");
}

BOOST_AUTO_TEST_CASE(InterleavedChunksTakeTurns) {
  const Schedule s = made("interleaved", 2, 2, 2);
  BOOST_TEST(s.stage_of == (std::vector<uint32_t>{0, 1, 0, 1}), boost::test_tools::per_element());
  BOOST_TEST(drawn(s, 0) == "F0.0 F1.0 F0.2 F1.2 I0.2 W0.2 I1.2 W1.2 R1.2 I0.0 W0.0 I1.0 W1.0 R1.0 S1.2 S1.0");
  BOOST_TEST(drawn(s, 1) == "F0.1 F1.1 F0.3 I0.3 W0.3 F1.3 I1.3 W1.3 R1.3 I0.1 W0.1 I1.1 W1.1 R1.1 S1.3 S1.1");
}

BOOST_AUTO_TEST_CASE(TheVTurnsOnTheLastStage) {
  const Schedule s = made("zb-v", 3, 6, 2);
  BOOST_TEST(s.stage_of == (std::vector<uint32_t>{0, 1, 2, 2, 1, 0}), boost::test_tools::per_element());
  const std::string last = drawn(s, with_transfers(s, 2));
  BOOST_TEST(last.starts_with("recvF0.2 F0.2 F0.3 sendF0.3 recvF1.2 F1.2 F1.3 sendF1.3"), last);
}

BOOST_AUTO_TEST_CASE(EveryScheduleIsCompleteAndFreeOfDeadlock) {
  for (const std::string& name : schedule_names())
    for (uint32_t p = 1; p <= 9; ++p)
      for (uint32_t m = 1; m <= 20; ++m) {
        if (name == "interleaved" && m % p != 0) continue;
        if (name == "pipedream-2bw" && m > p && m % p != 0) continue;
        const auto status = check(made(name, p, m, chunks_of(name)));
        BOOST_TEST(status.has_value(), name << ' ' << p << ' ' << m << (status ? "" : status.error().message));
      }
}

BOOST_AUTO_TEST_CASE(PeakActivationsAreTheClosedForms) {
  const double b = 1, w = 0.4;
  for (uint32_t p = 1; p <= 16; ++p) {
    const uint32_t m = 4 * p;
    const auto gpipe = peaks(made("gpipe", p, m), b, w), one = peaks(made("1f1b", p, m), b, w);
    const auto h1 = peaks(made("zb-h1", p, m), b, w), h2 = peaks(made("zb-h2", p, m), b, w);
    const auto v = peaks(made("zb-v", p, m, 2), b, w);
    for (uint32_t k = 0; k < p; ++k) {
      const double i = k + 1;  // the tables count stages from 1
      BOOST_TEST(gpipe[k] == m * b, boost::test_tools::tolerance(1e-12));
      BOOST_TEST(one[k] == (p - i + 1) * b, boost::test_tools::tolerance(1e-12));
      BOOST_TEST(h1[k] == (p - i + 1) * b + (i - 1) * w, boost::test_tools::tolerance(1e-12));
      BOOST_TEST(h2[k] == (2 * p - 2 * i + 1) * b + (2 * i - 2) * w, boost::test_tools::tolerance(1e-12));
      BOOST_TEST(v[k] <= p * b + 1e-9);
    }
    BOOST_TEST(v[0] == p * b, boost::test_tools::tolerance(1e-12));
    for (uint32_t chunks = 2; chunks <= 4; ++chunks) {
      const auto peak = peaks(made("interleaved", p, m, chunks), b, w);
      BOOST_TEST(peak[0] == p * b * (1 + (p - 1.0) / (p * chunks)), boost::test_tools::tolerance(1e-12));
    }
  }
}

BOOST_AUTO_TEST_CASE(AScheduleBeyondItsMemoryIsRefused) {
  const Schedule s = made("gpipe", 2, 8);
  const std::vector<ActivationSizes> sizes(2, {100, 10});
  BOOST_TEST(check(s, sizes, 800).has_value());
  const auto status = check(s, sizes, 799);
  BOOST_REQUIRE(!status);
  BOOST_TEST(
      status.error().message.find("stage 0 holds activations of up to 800, the limit is 799") != std::string::npos,
      status.error().message);
}

BOOST_AUTO_TEST_CASE(TransfersFollowFromTheActions) {
  const Schedule s = made("1f1b", 2, 1);
  BOOST_TEST(drawn(s, with_transfers(s, 0)) == "F0 sendF0 recvI0 I0 W0 R0 S0");
  BOOST_TEST(drawn(s, with_transfers(s, 1)) == "recvF0 F0 I0 W0 sendI0 R0 S0");
  const Schedule zero = made("zb-h1", 2, 1);
  BOOST_TEST(drawn(zero, with_transfers(zero, 1)) == "recvF0 F0 I0 sendI0 W0 R0 S0");
}

BOOST_AUTO_TEST_CASE(StashedWeightsAreTheNewestAtTheForward) {
  const Schedule s = made("pipedream", 4, 6);
  BOOST_TEST(drawn(s, 3).starts_with("F0 I0 W0 R0 S0 F1 I1 W1 R1 S1"));
  BOOST_TEST(weight_versions(s, 3) == (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}), boost::test_tools::per_element());
  BOOST_TEST(weight_versions(s, 0) == (std::vector<uint32_t>{0, 0, 0, 0, 1, 2}), boost::test_tools::per_element());
  for (uint32_t stage = 0; stage < 4; ++stage) BOOST_TEST(weight_copies(s, stage) == 4 - stage);
}

BOOST_AUTO_TEST_CASE(TwoBuffersLagOneStepOnAllStagesAlike) {
  const auto s = make_schedule({.name = "pipedream-2bw", .stages = 4, .micro_batches = 12, .accumulate = 4});
  BOOST_REQUIRE(s);
  for (uint32_t stage = 0; stage < 4; ++stage) {
    BOOST_TEST(weight_versions(*s, stage) == (std::vector<uint32_t>{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1}),
               boost::test_tools::per_element());
    BOOST_TEST(weight_copies(*s, stage) == 2u);
  }
}

BOOST_AUTO_TEST_CASE(VersionsFollowFromTheLagOfTheStage) {
  for (uint32_t p = 1; p <= 6; ++p)
    for (const uint32_t a_step : {p, p + 1, 3 * p}) {
      const auto two = make_schedule(
          {.name = "pipedream-2bw", .stages = p, .micro_batches = 4 * a_step, .accumulate = a_step});
      const Schedule one = made("pipedream", p, 4 * p);
      for (uint32_t stage = 0; stage < p; ++stage) {
        BOOST_TEST(weight_lag(one, stage) == p - 1 - stage);
        BOOST_TEST(weight_lag(*two, stage) == 1u);
        BOOST_TEST(weight_lag(made("1f1b", p, 3), stage) == 0u);
        const auto newest = [](uint32_t step, uint32_t lag) { return step > lag ? step - lag : 0; };
        for (uint32_t j = 0; j < 4 * p; ++j)
          BOOST_TEST(weight_versions(one, stage)[j] == newest(j, weight_lag(one, stage)));
        for (uint32_t j = 0; j < 4 * a_step; ++j) BOOST_TEST(weight_versions(*two, stage)[j] == newest(j / a_step, 1));
      }
    }
}

BOOST_AUTO_TEST_CASE(VersionsThatAreUsedHaveBeenMade) {
  for (const char* name : {"pipedream", "pipedream-2bw"})
    for (uint32_t p = 1; p <= 6; ++p) {
      const Schedule s = made(name, p, 4 * p);
      for (uint32_t chunk = 0; chunk < p; ++chunk) {
        const auto versions = weight_versions(s, chunk);
        uint32_t steps = 0;
        for (const Action& action : s.actions[chunk]) {
          if (action.kind == ActionKind::forward) BOOST_TEST(versions[action.micro_batch] <= steps);
          steps += action.kind == ActionKind::step;
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(WhatDoesNotFitIsRefused) {
  BOOST_TEST(error_of({.name = "1f1b", .stages = 0}) ==
             "schedule '1f1b' needs at least one stage, micro-batch and chunk a stage, not 0, 1 and 1");
  BOOST_TEST(
      error_of({.name = "interleaved", .stages = 4, .micro_batches = 6, .chunks = 2}) ==
      "schedule 'interleaved' takes micro-batches in groups of as many as there are stages: 6 micro-batches are no "
      "multiple of 4 stages");
  BOOST_TEST(error_of({.name = "gpipe", .chunks = 2}) ==
             "schedule 'gpipe' has one chunk a stage, not 2; 'interleaved' and 'zb-v' have more");
  BOOST_TEST(error_of({.name = "zb-v", .stages = 2}) ==
             "schedule 'zb-v' has two chunks a stage, down and up its V, not 1");
  BOOST_TEST(error_of({.name = "zb_h1"}).starts_with("there is no schedule 'zb_h1'; did you mean 'zb-h1'? Known are"));
  BOOST_TEST(error_of({.name = "pipedream-2bw", .stages = 4, .micro_batches = 8, .accumulate = 2})
                 .find("every 4 micro-batches") != std::string::npos);
  BOOST_TEST(
      error_of({.name = "gpipe", .stages = 100'000, .micro_batches = 100'000}).find("more than 100000000 actions") !=
      std::string::npos);
}

BOOST_AUTO_TEST_CASE(CsvGoesThereAndBack) {
  for (const std::string& name : schedule_names()) {
    if (name.starts_with("pipedream")) continue;  // a table has no steps in between
    const Schedule s = made(name, 3, 6, chunks_of(name));
    const auto back = parse_schedule_csv(schedule_csv(s), name);
    BOOST_REQUIRE_MESSAGE(back, name << (back ? "" : back.error().message));
    BOOST_TEST((back->actions == s.actions), name);
    BOOST_TEST(back->stage_of == s.stage_of, boost::test_tools::per_element());
    BOOST_TEST(back->fused_backward == s.fused_backward);
  }
}

BOOST_AUTO_TEST_CASE(CsvWithIdleColumnsAndCommentsIsRead) {
  const auto s = parse_schedule_csv("# mine\nF0, F1,,B0,B1\r\n\n,F0,B0,F1,B1", "mine");
  BOOST_REQUIRE_MESSAGE(s, (s ? "" : s.error().message));
  BOOST_TEST(drawn(*s, 1) == "F0 I0 W0 F1 I1 W1 R1 S1");
}

BOOST_AUTO_TEST_CASE(CsvErrorsNameTheirPlace) {
  BOOST_TEST(csv_error("F0,B0\nF0,X0\n").starts_with("s.csv:2:4: 'X0' is no action"));
  BOOST_TEST(csv_error("F0,B0\nF0,B-1\n").starts_with("s.csv:2:4: 'B-1' is no action"));
  BOOST_TEST(csv_error("0F0,0B0\n1F0, B0\n").starts_with("s.csv:2:6: this cell and the first one differ"));
  BOOST_TEST(csv_error("0F0,0B0\n1F0,1B0,0F1\n").starts_with("s.csv:2:9: chunk 0 is on stage 0 already"));
  BOOST_TEST(csv_error("# nothing\n").starts_with("s.csv holds no stages"));
  BOOST_TEST(csv_error("0F0,0B0\n2F0,2B0\n").starts_with("s.csv: chunk 1 is on no stage"));
  BOOST_TEST(csv_error("0F0,1000000F1000000").find("chunk 1 is on no stage") != std::string::npos);
  BOOST_TEST(csv_error("F0,F1000000\n").find("most are missing, or a number is mistyped") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(AMissingBackwardIsNamed) {
  BOOST_TEST(csv_error("F0,F1,B0\nF0,B0,F1,B1\n") ==
             "schedule 's.csv': stage 0 never runs I1, the backward pass (input gradient) of micro-batch 1 on chunk 0");
  BOOST_TEST(
      csv_error("F0,I0,W0\nF0,I0\n") ==
      "schedule 's.csv': stage 1 never runs W0, the backward pass (weight gradient) of micro-batch 0 on chunk 1");
  BOOST_TEST(csv_error("F0,B0\nF0,F0,B0\n") == "schedule 's.csv': stage 1 runs F0 twice");
}

BOOST_AUTO_TEST_CASE(ACycleIsNamed) {
  BOOST_TEST(
      csv_error("F0,B0,F1,B1\nF0,F1,B0,B1\n") ==
      "schedule 's.csv': would wait for ever: stage 0 waits at I0 for W0, which stage 1 has only after F1; stage 1 "
      "waits at F1 for F1, which stage 0 has only after I0");
  BOOST_TEST(csv_error("F0,W0,I0\n") ==
             "schedule 's.csv': would wait for ever: stage 0 waits at W0 for I0, which stage 0 has only after W0");
}

BOOST_AUTO_TEST_CASE(AStepBeforeItsGradientsIsRefused) {
  Schedule s = made("gpipe", 1, 2);
  std::swap(s.actions[0].back(), s.actions[0].front());
  const auto status = check(s);
  BOOST_REQUIRE(!status);
  BOOST_TEST(status.error().message.find("steps with 0 micro-batches' gradients made") != std::string::npos,
             status.error().message);
}

BOOST_AUTO_TEST_SUITE_END()
