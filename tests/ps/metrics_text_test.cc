#include <boost/test/unit_test.hpp>

#include <cmath>

#include <troupe/ps/metrics/human.h>
#include <troupe/ps/metrics/progress.h>
#include <troupe/ps/metrics/summary.h>

using namespace troupe::ps;

namespace {

Progress progress_at(int64_t step) {
  Progress p;
  p.step = step;
  p.total_steps = 1000;
  p.epoch = 2;
  p.epochs = 5;
  p.loss = 0.31214;
  p.samples_per_second = 16950.4;
  p.staleness_max = 2;
  return p;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(metrics_text)

BOOST_AUTO_TEST_CASE(CountsAreGroupedByThousands) {
  BOOST_TEST(human_count(0) == "0");
  BOOST_TEST(human_count(999) == "999");
  BOOST_TEST(human_count(17000) == "17,000");
  BOOST_TEST(human_count(-1234567) == "-1,234,567");
}

BOOST_AUTO_TEST_CASE(BytesHaveTheirUnit) {
  BOOST_TEST(human_bytes(812) == "812 B");
  BOOST_TEST(human_bytes(12345678) == "12.3 MB");
  BOOST_TEST(human_bytes(999999) == "1.0 MB");
}

BOOST_AUTO_TEST_CASE(DurationsGrowTheirUnits) {
  BOOST_TEST(human_duration(0.42) == "0.4 s");
  BOOST_TEST(human_duration(12.4) == "12 s");
  BOOST_TEST(human_duration(185) == "3 min 05 s");
  BOOST_TEST(human_duration(7384) == "2 h 03 min");
  BOOST_TEST(human_duration(std::nan("")) == "-");
}

BOOST_AUTO_TEST_CASE(ATableLinesUpItsColumns) {
  BOOST_TEST(text_table({{"layer", "bytes"}, {"a", "1"}, {"conv12", "1,000"}}) ==
             "layer   bytes\n"
             "a           1\n"
             "conv12  1,000\n");
}

BOOST_AUTO_TEST_CASE(TheProgressLineSaysWhereTheRunStands) {
  BOOST_TEST(progress_line(progress_at(500), 12) ==
             "step 500/1000  epoch 3/5  loss 0.3121  16,950 samples/s  staleness 2  ETA 12 s");
}

BOOST_AUTO_TEST_CASE(TheEtaFollowsFromTheStepsOfThisProcess) {
  ProgressPrinter printer(true, 0, 400, 100.0);  // resumed at step 400
  BOOST_TEST(printer.update(progress_at(500), 110.0).ends_with("ETA 50 s"));
}

BOOST_AUTO_TEST_CASE(ATerminalIsRedrawnTenTimesASecond) {
  ProgressPrinter printer(true, 0, 0, 0.0);
  BOOST_TEST(printer.update(progress_at(1), 0.01).starts_with("\r"));
  BOOST_TEST(printer.update(progress_at(2), 0.05) == "");
  BOOST_TEST(printer.update(progress_at(3), 0.12) != "");
}

BOOST_AUTO_TEST_CASE(ALineNeverWrapsOnATerminal) {
  ProgressPrinter printer(true, 20, 0, 0.0);
  BOOST_TEST(printer.update(progress_at(500), 1.0) == "\r\x1b[Kstep 500/1000  epoch");
}

BOOST_AUTO_TEST_CASE(AFileGetsPlainLinesNowAndThen) {
  ProgressPrinter printer(false, 0, 0, 0.0);
  Progress p = progress_at(1);
  p.epoch = 0;
  BOOST_TEST(printer.update(p, 1.0) == "");
  const std::string line = printer.update(p, 2.5);
  BOOST_TEST(line.starts_with("step 1/1000"));
  BOOST_TEST(line.ends_with("\n"));
  BOOST_TEST(printer.update(p, 5.0) == "");
  BOOST_TEST(printer.update(p, 12.6) != "");
}

BOOST_AUTO_TEST_CASE(ANewEpochIsAlwaysALine) {
  ProgressPrinter printer(false, 0, 0, 0.0);
  BOOST_TEST(printer.update(progress_at(1), 0.5) != "");
  BOOST_TEST(printer.update(progress_at(2), 0.6) == "");
}

BOOST_AUTO_TEST_CASE(OtherOutputClearsTheDrawnLine) {
  ProgressPrinter printer(true, 0, 0, 0.0);
  BOOST_TEST(printer.interrupt("hello\n") == "hello\n");
  printer.update(progress_at(1), 1.0);
  BOOST_TEST(printer.interrupt("hello\n") == "\r\x1b[Khello\n");
  BOOST_TEST(printer.update(progress_at(2), 1.01) != "");
}

BOOST_AUTO_TEST_CASE(TheSummaryIsJsonWithNullsForWhatIsUnknown) {
  RunSummary summary;
  summary.name = "x";
  summary.test_accuracy = 0.875;
  summary.train_loss = std::nan("");
  LayerSummary layer;
  layer.name = "fc1";
  layer.policy = "ssp(2)";
  layer.pushed_bytes = 100;
  layer.staleness.add(0, 3);
  layer.staleness.add(2);
  summary.layers = {layer};
  const std::string text = summary_json(summary);
  const auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  BOOST_TEST(has("\"test_accuracy\": 0.875"), text);
  BOOST_TEST(has("\"train_loss\": null"), text);
  BOOST_TEST(has("\"error\": null"), text);
  BOOST_TEST(has("\"policy\": \"ssp(2)\""), text);
  BOOST_TEST(has("\"bytes_pushed\": 100"), text);
  BOOST_TEST(has("\"p95\": 2"), text);
  BOOST_TEST(has("\"workers\": []"), text);
}

BOOST_AUTO_TEST_CASE(AnErrorThatIsNotUtf8IsStillJson) {
  RunSummary summary;
  summary.error = "bad\xff";
  BOOST_TEST(summary_json(summary).find("bad\xef\xbf\xbd") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(TheSummaryTextShowsTrafficAndResult) {
  RunSummary summary;
  summary.steps = 2345;
  summary.samples = 300000;
  summary.seconds = 17.6;
  summary.samples_per_second = 17045;
  summary.test_accuracy = 0.8812;
  summary.skipped_steps = 1;
  LayerSummary layer;
  layer.name = "fc1";
  layer.policy = "sync";
  layer.parameters = 401920;
  layer.pushed_bytes = 12345678;
  summary.layers = {layer};
  summary.workers = {{0, 300000, 2345, 3.0, 1.0}};
  BOOST_TEST(summary_text(summary) ==
             "layer  policy  parameters   pushed  pulled  updates  staleness  delay\n"
             "fc1      sync     401,920  12.3 MB     0 B        0          -      -\n"
             "(staleness in steps and delay in updates: median / 95 % / maximum)\n"
             "\n"
             "worker  steps  samples  compute  waiting\n"
             "0       2,345  300,000    3.0 s   25.0 %\n"
             "\n"
             "trouble: 1 step skipped (non-finite gradients)\n"
             "finished after 2,345 steps, 300,000 samples, 18 s: 17,045 samples/s\n"
             "test accuracy 0.8812\n");
}

BOOST_AUTO_TEST_SUITE_END()
