#include <boost/test/unit_test.hpp>

#include <vector>

#include <troupe/ps/checkpoint/safetensors.h>

#include <tests/support/memory_disk.h>

using namespace troupe;
using namespace troupe::ps;
using troupe::test::MemoryDisk;

namespace {

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

/// One F32[2] "w" = {1, 2}, as the format's own tools write it.
const std::string kVector = from_hex(
    "38000000000000007b2277223a7b226474797065223a22463332222c227368617065223a5b325d2c22646174615f6f6666736574"
    "73223a5b30"
    "2c385d7d7d20200000803f00000040");

std::string file_of(std::string header, const std::string& data) {
  std::string out;
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(header.size() >> shift & 255);
  return out + header + data;
}

struct Fixture {
  MemoryDisk disk;

  Result<SafetensorsFile> open(const std::string& bytes) {
    const auto file = disk.create("x");
    BOOST_REQUIRE((*file)->write(std::as_bytes(std::span(bytes))).has_value());
    return SafetensorsFile::open(disk, "x");
  }
  std::string error(const std::string& bytes) {
    const auto file = open(bytes);
    BOOST_TEST_MESSAGE((file ? "no error" : file.error().message));
    if (!file) BOOST_TEST((file.error().kind == ErrorKind::corrupt));
    return file ? "no error" : file.error().message;
  }
  bool refused(const std::string& header, const std::string& data = std::string(8, '\0')) {
    return error(file_of(header, data)) != "no error";
  }
};

std::string entry(const std::string& shape, const std::string& offsets, const std::string& dtype = "F32") {
  return "{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" + offsets + "]}";
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(safetensors, Fixture)

BOOST_AUTO_TEST_CASE(TheWriterMakesThePublishedBytes) {
  auto writer = SafetensorsWriter::create(disk, "w", {{"w", DType::f32, {2}}});
  BOOST_REQUIRE(writer.has_value());
  const std::vector<float> values{1, 2};
  BOOST_TEST(writer->append(std::as_bytes(std::span(values))).has_value());
  const auto written = writer->finish();
  BOOST_REQUIRE(written.has_value());
  BOOST_TEST(disk.bytes("w") == kVector);
  BOOST_TEST(written->bytes == kVector.size());
}

BOOST_AUTO_TEST_CASE(TheReaderReadsThePublishedBytes) {
  const auto file = open(kVector);
  BOOST_REQUIRE(file.has_value());
  const auto w = file->read("w");
  BOOST_REQUIRE(w.has_value());
  BOOST_TEST(w->span<float>() == (std::vector<float>{1, 2}), boost::test_tools::per_element());
  float second = 0;
  BOOST_TEST(file->read("w", 1, {&second, 1}).has_value());
  BOOST_TEST(second == 2);
}

BOOST_AUTO_TEST_CASE(ScalarsEmptyTensorsMetadataAndAnyTypeAreLegal) {
  const auto file = open(file_of("{\"__metadata__\":{\"a\":\"b\"},\"h\":" + entry("4", "4,8", "F8_E4M3") +
                                     ",\"s\":" + entry("", "0,4") + ",\"e\":" + entry("0, 7", "8,8") + "}   ",
                                 "01234567"));
  BOOST_REQUIRE_MESSAGE(file.has_value(), (file ? "" : file.error().message));
  BOOST_TEST(file->entries().size() == 3u);
  BOOST_TEST(file->metadata().at("a") == "b");
  BOOST_TEST((file->read("s")->shape() == Shape{}));
  BOOST_TEST(file->read("e")->count() == 0);
  BOOST_TEST(file->read("h").error().message.find("F8_E4M3") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(AFileCutShortAnywhereIsRefused) {
  for (size_t length = 0; length < kVector.size(); ++length)
    BOOST_TEST(error(kVector.substr(0, length)) != "no error");
}

BOOST_AUTO_TEST_CASE(BytesAfterTheEndAreRefused) {
  BOOST_TEST(error(kVector + "x").find("appended") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(AHeaderLongerThanTheFileOrTheFormatAllowsIsRefused) {
  for (const int at : {1, 3, 4, 7}) {
    std::string bytes = kVector;
    bytes[static_cast<size_t>(at)] = '\x7f';
    BOOST_TEST(error(bytes).find("announces a header") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(TensorsMustNotOverlapOrLeaveHoles) {
  BOOST_TEST(refused("{\"a\":" + entry("1", "0,4") + ",\"b\":" + entry("2", "0,8") + "}"));
  BOOST_TEST(refused("{\"a\":" + entry("1", "4,8") + "}"));
  BOOST_TEST(refused("{\"a\":" + entry("1", "0,4") + "}"));
  BOOST_TEST(
      refused("{\"a\":" + entry("1", "0,4") + ",\"b\":" + entry("1", "8,12") + "}", std::string(12, '\0')));
}

BOOST_AUTO_TEST_CASE(OffsetsMustFitShapeAndType) {
  for (const char* offsets :
       {"0,7", "8,0", "0", "0,8,9", "-1,7", "0.0,8", "\"0\",8", "0,18446744073709551616"})
    BOOST_TEST(refused("{\"a\":" + entry("2", offsets) + "}"), offsets);
  for (const char* shape :
       {"3", "-2", "2.0", "\"2\"", "9223372036854775807,9223372036854775807", "18446744073709551615"})
    BOOST_TEST(refused("{\"a\":" + entry(shape, "0,8") + "}"), shape);
  for (const char* dtype : {"F64", "f32", "", "Q8"})
    BOOST_TEST(refused("{\"a\":" + entry("2", "0,8", dtype) + "}"), dtype);
}

BOOST_AUTO_TEST_CASE(AKeyThatComesTwiceIsRefused) {
  BOOST_TEST(refused("{\"a\":" + entry("2", "0,8") + ",\"a\":" + entry("2", "0,8") + "}"));
  BOOST_TEST(refused("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"));
}

BOOST_AUTO_TEST_CASE(AHeaderThatIsNotTheFormatsJsonIsRefused) {
  for (const char* header :
       {"", " {}", "[]", "{", "{}x", "{\"a\":1}", "{\"a\":{}}", "{\"__metadata__\":{\"a\":1}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"more\":1}}", "{\"\xff\":1}"})
    BOOST_TEST(refused(header, ""), header);
  BOOST_TEST(refused(std::string(100000, '{')));
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  BOOST_TEST(refused("{\"a\":" + deep + "}"));
  BOOST_TEST(refused("{\"a\":{\"dtype\":" + deep + ",\"shape\":[2],\"data_offsets\":[0,8]}}"));
}

BOOST_AUTO_TEST_CASE(TwoTensorsOfOneNameAreNotWritten) {
  BOOST_TEST(
      !SafetensorsWriter::create(disk, "w", {{"w", DType::f32, {2}}, {"w", DType::f32, {2}}}).has_value());
}

BOOST_AUTO_TEST_CASE(ANameThatIsNotUtf8IsNotWritten) {
  BOOST_TEST(!SafetensorsWriter::create(disk, "w", {{"\xff", DType::f32, {2}}}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
