#include <boost/test/unit_test.hpp>

#include <fcntl.h>

#include <tests/support/temp_folder.h>
#include <tools/launch/incident.h>
#include <tools/launch/line_splitter.h>
#include <tools/launch/output.h>
#include <tools/launch/run_facts.h>
#include <tools/launch/run_logs.h>

using namespace troupe;
using namespace troupe::launch;

BOOST_AUTO_TEST_SUITE(output)

namespace {

/// The pieces of `parts` fed one after the other: "|" ends a line, "~" a piece that another follows.
std::string pieces(size_t most, std::initializer_list<std::string_view> parts) {
  std::string all;
  LineSplitter splitter(most);
  const auto piece = [&all](std::string_view text, bool whole) { (all += text) += whole ? '|' : '~'; };
  for (std::string_view part : parts) splitter.feed(part, piece);
  splitter.finish(piece);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(BytesBecomeLinesHoweverTheyCome) {
  BOOST_TEST(pieces(100, {"a\nb", "c\n", "\n", "d"}) == "a|bc||d|");
  BOOST_TEST(pieces(100, {}) == "");
}

BOOST_AUTO_TEST_CASE(ALongLineIsCutBetweenCharacters) {
  BOOST_TEST(pieces(4, {"abcdefghij\nk\n"}) == "abcd~efgh~ij|k|");
  BOOST_TEST(pieces(4, {"abcd\n"}) == "abcd|");
  BOOST_TEST(pieces(4, {"abc\u00e9\n"}) == "abc~\u00e9|");
  BOOST_TEST(pieces(4, {"\x80\x80\x80\x80\x80\x80\n"}) == "\x80\x80\x80\x80~\x80\x80|");
}

BOOST_AUTO_TEST_CASE(ALineThatIsCutByTheEndOfTheStreamIsWhole) { BOOST_TEST(pieces(4, {"abcdef"}) == "abcd~ef|"); }

BOOST_AUTO_TEST_CASE(AReaderThatIsSlowIsNotWaitedFor) {
  int ends[2];
  BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  Output output(ends[1], ends[1]);
  const std::string text(1000, 'x');
  for (int i = 0; i < 2000; ++i) output.line(Stream::out, "> ", text);
  output.write_ready();  // returns although the pipe is full
  BOOST_TEST(output.full());
  std::string got(70000, '\0');
  size_t bytes = 0;
  while (!output.empty()) {
    const ssize_t n = ::read(ends[0], got.data(), got.size());
    BOOST_REQUIRE(n > 0);
    bytes += static_cast<size_t>(n);
    output.write_ready();
  }
  ::close(ends[1]);
  for (ssize_t n = 1; n > 0; bytes += static_cast<size_t>(n)) n = ::read(ends[0], got.data(), got.size());
  BOOST_TEST(bytes == 2000u * 1003u);
  ::close(ends[0]);
}

BOOST_AUTO_TEST_CASE(LogsKeepWhatCameBeforeTheFolder) {
  test::TempFolder folder;
  RunLogs logs;
  BOOST_TEST(logs.add("node-0", "early\n").has_value());
  BOOST_TEST(logs.open(folder.path()).has_value());
  BOOST_TEST(logs.add("node-0", "late\n").has_value());
  BOOST_TEST(folder.read("logs/node-0.log") == "early\nlate\n");
}

BOOST_AUTO_TEST_CASE(WhatIsKeptIsBoundedAndSaysSo) {
  test::TempFolder folder;
  RunLogs logs;
  const std::string part(1000, 'x');
  for (int i = 0; i < 2000; ++i) logs.add("a", part);
  BOOST_TEST(logs.open(folder.path()).has_value());
  BOOST_TEST(folder.read("logs/a.log").size() < RunLogs::kMostKept + 100);
  BOOST_TEST(folder.read("logs/a.log").find("bytes left out") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(ALogThatCannotBeWrittenIsSaidOnce) {
  test::TempFolder folder;
  folder.write("logs", "a file where the folder should be");
  RunLogs logs;
  const auto opened = logs.open(folder.path());
  BOOST_REQUIRE(!opened);
  BOOST_TEST(opened.error().message.find("/logs: cannot make this folder") != std::string::npos);
  BOOST_TEST(logs.add("a", "x").has_value());
}

BOOST_AUTO_TEST_CASE(TheTableIsInOrderAndAligned) {
  const std::vector<Incident> incidents = {{.at = Moment{1500},
                                            .who = "node 1",
                                            .host = "alpha",
                                            .pid = 12,
                                            .ending = {true, 9},
                                            .stderr_lines = {"last words"},
                                            .done = Incident::Done::restarted},
                                           {.at = Moment{62000},
                                            .who = "coordinator",
                                            .host = "b",
                                            .what = "did not answer",
                                            .done = Incident::Done::ended_the_run}};
  BOOST_TEST(incident_table(incidents) ==
             "after   who          host   pid  what happened      what was done\n"
             "1.5 s   node 1       alpha  12   signal 9 (Killed)  started again\n"
             "    | last words\n"
             "62.0 s  coordinator  b      -    did not answer     ended the run\n");
}

BOOST_AUTO_TEST_CASE(TheRunsOwnFactsAreThoseOfItsSummary) {
  test::TempFolder folder;
  BOOST_TEST(run_facts(folder.path()) == "");
  folder.write("summary.json",
               R"({"steps": 512, "outcome": "finished", "error": null, "updates_lost": 0, "layers": []})");
  BOOST_TEST(run_facts(folder.path()) == "the run: finished; last step 512; updates lost: 0");
  folder.write("summary.json", "{");
  BOOST_TEST(run_facts(folder.path()) == "");
}

BOOST_AUTO_TEST_SUITE_END()
