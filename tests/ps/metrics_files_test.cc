#include <boost/test/unit_test.hpp>

#include <cmath>
#include <thread>

#include <tests/support/temp_folder.h>
#include <troupe/ps/metrics/cut_rows.h>
#include <troupe/ps/metrics/log.h>
#include <troupe/ps/metrics/metrics_writer.h>
#include <troupe/ps/metrics/run_folder.h>

using namespace troupe;
using namespace troupe::ps;
using troupe::test::TempFolder;

namespace {

MetricsRow row_of_step(int64_t step) {
  MetricsRow row;
  row.time_s = 0.5;
  row.step = step;
  row.epoch = 1;
  row.loss = 0.25;
  row.samples = 1280;
  row.samples_per_second = 2560;
  row.learning_rate = 0.05;
  row.staleness_max = 2;
  row.wait_share = 0.125;
  row.loss_scale = 1024;
  row.skipped_steps = 1;
  return row;
}

std::chrono::system_clock::time_point epoch_plus_ms(int64_t ms) {
  return std::chrono::system_clock::time_point(std::chrono::milliseconds(ms));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(metrics_files)

BOOST_AUTO_TEST_CASE(ARowIsOneLineInBothFiles) {
  const TempFolder folder;
  auto writer = MetricsWriter::open(folder / "m.csv", folder / "m.jsonl");
  BOOST_REQUIRE(writer.has_value());
  writer->write(row_of_step(10));
  BOOST_TEST(folder.read("m.csv") ==
             "time_s,step,epoch,loss,accuracy,test_loss,test_accuracy,samples,samples_per_second,learning_rate,"
             "staleness_p50,staleness_p95,staleness_max,wait_share,loss_scale,skipped_steps\n"
             "0.5,10,1,0.25,,,,1280,2560.0,0.05,0,0,2,0.125,1024.0,1\n");
  BOOST_TEST(folder.read("m.jsonl") ==
             "{\"time_s\":0.5,\"step\":10,\"epoch\":1,\"loss\":0.25,\"accuracy\":null,\"test_loss\":null,"
             "\"test_accuracy\":null,\"samples\":1280,\"samples_per_second\":2560.0,\"learning_rate\":0.05,"
             "\"staleness_p50\":0,\"staleness_p95\":0,\"staleness_max\":2,\"wait_share\":0.125,\"loss_scale\":1024.0,"
             "\"skipped_steps\":1}\n");
}

BOOST_AUTO_TEST_CASE(AResumedRunContinuesItsFiles) {
  const TempFolder folder;
  for (int64_t step : {1, 2}) MetricsWriter::open(folder / "m.csv", "")->write(row_of_step(step));
  const std::string text = folder.read("m.csv");
  BOOST_TEST(std::count(text.begin(), text.end(), '\n') == 3);
  BOOST_TEST(text.find("time_s") == text.rfind("time_s"));
}

BOOST_AUTO_TEST_CASE(RowsAfterTheResumedStepAreCutOff) {
  const TempFolder folder;
  const auto write = [&](std::initializer_list<int64_t> steps) {
    auto writer = MetricsWriter::open(folder / "m.csv", folder / "m.jsonl");
    for (const int64_t step : steps) writer->write(row_of_step(step));
  };
  write({5, 10, 10});
  const std::string csv = folder.read("m.csv"), jsonl = folder.read("m.jsonl");
  write({11, 15});
  for (const char* name : {"m.csv", "m.jsonl"}) BOOST_TEST(cut_rows_after(folder / name, 10).has_value());
  BOOST_TEST(folder.read("m.csv") == csv);
  BOOST_TEST(folder.read("m.jsonl") == jsonl);
  for (const char* name : {"m.csv", "m.jsonl"}) BOOST_TEST(cut_rows_after(folder / name, 0).has_value());
  BOOST_TEST(folder.read("m.csv") == csv.substr(0, csv.find('\n') + 1));
  BOOST_TEST(folder.read("m.jsonl") == "");
}

BOOST_AUTO_TEST_CASE(ALineWithoutAnEndIsCutOff) {
  const TempFolder folder;
  for (int64_t step : {1, 2}) MetricsWriter::open(folder / "m.csv", "")->write(row_of_step(step));
  const std::string text = folder.read("m.csv");
  folder.write("m.csv", text.substr(0, text.size() - 4));
  BOOST_TEST(cut_rows_after(folder / "m.csv", 10).has_value());
  BOOST_TEST(folder.read("m.csv") == text.substr(0, text.rfind('\n', text.size() - 2) + 1));
  BOOST_TEST(cut_rows_after(folder / "absent.csv", 10).has_value());
}

BOOST_AUTO_TEST_CASE(ADivergedLossIsValidJson) {
  const TempFolder folder;
  auto writer = MetricsWriter::open("", folder / "m.jsonl");
  BOOST_REQUIRE(writer.has_value());
  MetricsRow row = row_of_step(1);
  row.loss = std::nan("");
  writer->write(row);
  BOOST_TEST(folder.read("m.jsonl").find("\"loss\":null") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(AFullDiskCostsRowsAndIsCounted) {
  auto writer = MetricsWriter::open("/dev/full", "");
  BOOST_REQUIRE(writer.has_value());
  writer->write(row_of_step(1));
  BOOST_TEST(writer->failures() == 2);  // the header and the row
}

BOOST_AUTO_TEST_CASE(ALogLineHasTimeLevelAndWho) {
  BOOST_TEST(log_line(epoch_plus_ms(86400123), LogLevel::warning, "worker 2", "slow\nvery") ==
             "1970-01-02 00:00:00.123 warning worker 2: slow\n    very");
}

BOOST_AUTO_TEST_CASE(LinesOfSeveralThreadsDoNotMix) {
  const TempFolder folder;
  {
    Log log(*LineFile::open(folder / "log.txt"), [] { return epoch_plus_ms(0); });
    const auto write_many = [&log](const char* who) {
      for (int i = 0; i < 200; ++i) log.write(LogLevel::info, who, std::string(50, who[0]));
    };
    std::thread a(write_many, "a"), b(write_many, "b");
    a.join();
    b.join();
  }
  std::istringstream lines(folder.read("log.txt"));
  const std::string start = "1970-01-01 00:00:00.000 info ";
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    BOOST_TEST((line == start + "a: " + std::string(50, 'a') || line == start + "b: " + std::string(50, 'b')), line);
  BOOST_TEST(count == 400);
}

BOOST_AUTO_TEST_CASE(TheTerminalHearsTheLogToo) {
  std::string heard;
  Log log(
      std::nullopt, [] { return epoch_plus_ms(0); },
      [&](LogLevel, const std::string& who, const std::string& text) { heard = who + ": " + text; });
  log.write(LogLevel::error, "server 0", "gone");
  BOOST_TEST(heard == "server 0: gone");
}

BOOST_AUTO_TEST_CASE(TwoRunsOfOneSecondGetTwoFolders) {
  const TempFolder folder;
  const auto first = RunFolder::create_under(folder / "runs", "mlp", "20261130-112906");
  const auto second = RunFolder::create_under(folder / "runs", "mlp", "20261130-112906");
  BOOST_REQUIRE(first.has_value());
  BOOST_REQUIRE(second.has_value());
  BOOST_TEST(first->path() == folder / "runs/mlp-20261130-112906");
  BOOST_TEST(second->path() == folder / "runs/mlp-20261130-112906-2");
  BOOST_TEST(std::filesystem::is_directory(second->checkpoints()));
}

BOOST_AUTO_TEST_CASE(AGivenFolderMayExistIfItIsEmpty) {
  const TempFolder folder;
  BOOST_TEST(RunFolder::create_at(folder.path()).has_value());
}

BOOST_AUTO_TEST_CASE(ANonEmptyFolderIsNotWrittenOver) {
  const TempFolder folder;
  folder.write("precious", "data");
  const auto created = RunFolder::create_at(folder.path());
  BOOST_REQUIRE(!created.has_value());
  BOOST_TEST(created.error().message.find("not empty") != std::string::npos);
  BOOST_TEST(!std::filesystem::exists(folder / "checkpoints"));
}

BOOST_AUTO_TEST_CASE(AFolderWithoutAConfigIsNoRunToResume) {
  const TempFolder folder;
  const auto opened = RunFolder::open(folder.path());
  BOOST_REQUIRE(!opened.has_value());
  BOOST_TEST(opened.error().message == folder.path() + ": is not a run's folder: it has no config.resolved.toml");
}

BOOST_AUTO_TEST_CASE(ARunIsOpenedAgain) {
  const TempFolder folder;
  const auto run = RunFolder::create_at(folder / "run");
  BOOST_REQUIRE(run.has_value());
  folder.write("run/config.resolved.toml", "");
  BOOST_TEST(RunFolder::open(folder / "run").has_value());
}

BOOST_AUTO_TEST_CASE(AFileIsReplacedWhole) {
  const TempFolder folder;
  BOOST_TEST(replace_file(folder / "f", "old").has_value());
  BOOST_TEST(replace_file(folder / "f", "new").has_value());
  BOOST_TEST(folder.read("f") == "new");
  BOOST_TEST(!std::filesystem::exists(folder / "f.part"));
}

BOOST_AUTO_TEST_CASE(AFileThatCannotBeWrittenIsNamed) {
  const Status status = replace_file("/nowhere/f", "x");
  BOOST_REQUIRE(!status.has_value());
  BOOST_TEST(status.error().message ==
             "/nowhere/f was not written: cannot create /nowhere/f.part: No such file or directory");
}

BOOST_AUTO_TEST_SUITE_END()
