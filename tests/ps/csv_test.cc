#include <boost/test/unit_test.hpp>

#include <troupe/ps/data/csv.h>

#include <tests/support/temp_folder.h>

using namespace troupe;
using namespace troupe::ps;
using troupe::test::TempFolder;

namespace {

struct Fixture {
  TempFolder folder;

  Samples read(const std::string& text, const std::string& label = "") {
    const auto samples = read_csv(folder.write("t.csv", text), label);
    BOOST_REQUIRE_MESSAGE(samples.has_value(), (samples ? "" : samples.error().message));
    return *samples;
  }
  std::string error(const std::string& text, const std::string& label = "") {
    const auto samples = read_csv(folder.write("t.csv", text), label);
    return samples ? "no error" : samples.error().message;
  }
};

std::vector<float> values(const Samples& s) {
  const auto span = s.values.span<float>();
  return {span.begin(), span.end()};
}

std::vector<int> labels(const Samples& s) {
  const auto span = s.labels.span<int32_t>();
  return {span.begin(), span.end()};
}

bool has(const std::string& text, const char* words) {
  BOOST_TEST_MESSAGE(text);
  return text.find(words) != std::string::npos;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(csv, Fixture)

BOOST_AUTO_TEST_CASE(TheLastColumnIsTheLabel) {
  const Samples s = read("1,2.5,0\n-3e2,+4,1\n");
  BOOST_TEST((s.values.shape() == Shape{2, 2}));
  BOOST_TEST((values(s) == std::vector<float>{1, 2.5, -300, 4}));
  BOOST_TEST((labels(s) == std::vector<int>{0, 1}));
}

BOOST_AUTO_TEST_CASE(ALabelColumnIsFoundByNameAndByNumber) {
  for (const char* label : {"kind", "1"}) {
    const Samples s = read("height,kind,width\n1,7,2\n3,8,4\n", label);
    BOOST_TEST((values(s) == std::vector<float>{1, 2, 3, 4}));
    BOOST_TEST((labels(s) == std::vector<int>{7, 8}));
  }
}

BOOST_AUTO_TEST_CASE(QuotedFieldsWindowsLinesAndEmptyLinesAreRead) {
  const Samples s = read("\"a \"\"big\"\", one\",b\r\n\r\n\"1\", 2 \r\n3,4");
  BOOST_TEST((values(s) == std::vector<float>{1, 3}));
  BOOST_TEST((labels(s) == std::vector<int>{2, 4}));
}

BOOST_AUTO_TEST_CASE(AByteOrderMarkBelongsToNoField) {
  const Samples s = read("\xef\xbb\xbf" "1,2\n3,4\n");
  BOOST_TEST((values(s) == std::vector<float>{1, 3}));
  BOOST_TEST((labels(read("\xef\xbb\xbf" "kind,x\n7,1\n", "kind")) == std::vector<int>{7}));
}

BOOST_AUTO_TEST_CASE(ACarriageReturnAloneMakesNoNumber) {
  BOOST_TEST(has(error("x,y\n1,2\r3,4\n"), "t.csv:2:"));
}

BOOST_AUTO_TEST_CASE(FilesLargerThanOneBlockAreRead) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += std::to_string(i) + ",1.25," + std::to_string(i % 10) + '\n';
  const Samples s = read(text);
  BOOST_TEST(s.labels.count() == 100000);
  BOOST_TEST(values(s)[2 * 99999] == 99999);
}

BOOST_AUTO_TEST_CASE(AnEmptyCellIsAnErrorWithItsPlace) {
  BOOST_TEST(has(error("x,y\n1,2\n33,\n"), "t.csv:3:4: column 'y' is empty"));
  BOOST_TEST(has(error("1,2\n,2\n"), "t.csv:2:1: column 0 is empty"));
}

BOOST_AUTO_TEST_CASE(ATextCellIsAnErrorWithItsPlace) {
  BOOST_TEST(has(error("x,y\n1,2\n3,four\n"), "t.csv:3:3: column 'y' holds 'four'"));
  BOOST_TEST(has(error("1,2\n3x,4\n"), "t.csv:2:1"));
  for (const char* bad : {"nan", "inf", "1e999", "1e39"})
    BOOST_TEST(has(error(cat("1,2\n", bad, ",4\n")), "t.csv:2:1"));
}

BOOST_AUTO_TEST_CASE(ARowOfAnotherLengthIsAnErrorWithBothLengths) {
  BOOST_TEST(has(error("1,2,3\n4,5\n"), "t.csv:2:3: this row has 2 fields, the first one has 3"));
}

BOOST_AUTO_TEST_CASE(ALabelThatIsNoWholeNumberIsAnError) {
  for (const char* bad : {"-1", "1.5", "3000000000"})
    BOOST_TEST(has(error(cat("1,2\n4,", bad, "\n")), "t.csv:2:3: the label"));
}

BOOST_AUTO_TEST_CASE(AnUnknownLabelColumnIsAnErrorThatListsTheColumns) {
  BOOST_TEST(has(error("height,kind\n1,2\n", "sort"), "named height, kind"));
  BOOST_TEST(has(error("1,2\n", "2"), "2 columns"));
}

BOOST_AUTO_TEST_CASE(AnUnclosedQuoteIsAnErrorWhereItOpens) {
  BOOST_TEST(has(error("1,2\n3,\"4\n5,6\n"), "t.csv:2:3"));
}

BOOST_AUTO_TEST_CASE(ATableWithoutSamplesIsAnError) {
  for (const char* text : {"", "\n\n", "x,y\n"}) BOOST_TEST(has(error(text), "holds no samples"));
}

BOOST_AUTO_TEST_SUITE_END()
