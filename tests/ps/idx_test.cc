#include <boost/test/unit_test.hpp>

#include <sys/stat.h>

#include <troupe/ps/data/idx.h>

#include <tests/support/temp_folder.h>

using namespace troupe;
using namespace troupe::ps;
using troupe::test::TempFolder;

namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int v : values) out += static_cast<char>(v);
  return out;
}

/// Two images of 2 x 3.
const std::string kImages =
    bytes({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255});

std::string error_of(const Result<Tensor>& result) {
  return result ? "no error" : result.error().message;
}

bool says(const Result<Tensor>& result, std::initializer_list<const char*> words) {
  for (const char* word : words)
    if (error_of(result).find(word) == std::string::npos) return false;
  return true;
}

/// A gzip file of one stored block.
std::string gzipped(const std::string& text) {
  std::string out = bytes({0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, /* last block, stored: */ 1});
  const auto n = text.size();
  for (const size_t half : {n, ~n & 0xffff})
    out += bytes({static_cast<int>(half & 255), static_cast<int>(half >> 8)});
  out += text;
  uint32_t crc = ~0u;
  for (const char c : text) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  crc = ~crc;
  for (const uint32_t word : {crc, static_cast<uint32_t>(n)})
    for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(word >> shift & 255);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(idx)

BOOST_AUTO_TEST_CASE(PlainAndGzippedFilesHoldTheSame) {
  const TempFolder folder;
  for (const auto& path : {folder.write("a", kImages), folder.write("b", gzipped(kImages))}) {
    const auto images = read_idx_images(path);
    BOOST_REQUIRE_MESSAGE(images.has_value(), error_of(images));
    BOOST_TEST((images->shape() == Shape{2, 1, 2, 3}));
    BOOST_TEST(int{images->data<uint8_t>()[0]} == 1);
    BOOST_TEST(int{images->data<uint8_t>()[11]} == 255);
  }
}

BOOST_AUTO_TEST_CASE(LabelsBecomeIntegers) {
  const TempFolder folder;
  const auto labels = read_idx_labels(folder.write("a", bytes({0, 0, 8, 1, 0, 0, 0, 3, 9, 0, 200})));
  BOOST_REQUIRE_MESSAGE(labels.has_value(), error_of(labels));
  BOOST_TEST(labels->span<int32_t>() == (std::vector<int32_t>{9, 0, 200}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(AFileCutShortAnywhereIsAnErrorThatNamesIt) {
  const TempFolder folder;
  for (const std::string& whole : {kImages, gzipped(kImages)})
    for (size_t length = 0; length < whole.size(); ++length) {
      const auto result = read_idx(folder.write("cut", whole.substr(0, length)));
      BOOST_TEST(says(result, {"/cut"}), "length " << length << ": " << error_of(result));
    }
}

BOOST_AUTO_TEST_CASE(TrailingBytesAreAnError) {
  const TempFolder folder;
  BOOST_TEST(says(read_idx(folder.write("a", kImages + "x")), {"12 bytes", "13 follow"}));
  BOOST_TEST(says(read_idx(folder.write("b", gzipped(kImages + "x"))), {"goes on after"}));
  BOOST_TEST(says(read_idx(folder.write("c", gzipped(kImages) + "x")), {"after the end"}));
}

BOOST_AUTO_TEST_CASE(AHeaderThatLiesIsRefusedBeforeMemoryIsTaken) {
  const TempFolder folder;
  // 2^32 - 1 images of 2^32 - 1 by 3 bytes: overflows; 2^24 images of 2 x 3: fits no file of this size.
  const std::string overflowing =
      bytes({0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 3, 1, 2});
  std::string large = kImages;
  large[4] = 1;
  const size_t before = buffer_stats().used_bytes;
  BOOST_TEST(says(read_idx(folder.write("a", overflowing)), {"4294967295 x 4294967295 x 3"}));
  BOOST_TEST(says(read_idx(folder.write("b", large)), {"100663308 bytes", "12 follow"}));
  BOOST_TEST(says(read_idx(folder.write("c", gzipped(large))), {"100663308 bytes", "cannot hold"}));
  BOOST_TEST(buffer_stats().used_bytes == before);
}

BOOST_AUTO_TEST_CASE(ALastDimensionOfZeroDoesNotExcuseThoseBeforeIt) {
  const TempFolder folder;
  const std::string none = bytes({0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0});
  BOOST_TEST(says(read_idx(folder.write("a", none)), {"4294967295 x 4294967295 x 0"}));
}

BOOST_AUTO_TEST_CASE(DamagedCompressedDataIsAnError) {
  const TempFolder folder;
  std::string damaged = gzipped(kImages);
  damaged[damaged.size() - 9] ^= 1;  // the last pixel: only the checksum knows
  const auto result = read_idx(folder.write("a", damaged));
  BOOST_TEST(says(result, {"/a is damaged"}), error_of(result));
}

BOOST_AUTO_TEST_CASE(AWrongMagicIsAnError) {
  const TempFolder folder;
  BOOST_TEST(says(read_idx(folder.write("a", "PNG and more")), {"not an IDX file"}));
}

BOOST_AUTO_TEST_CASE(ElementsOtherThanBytesAreRefused) {
  const TempFolder folder;
  std::string floats = kImages;
  floats[2] = 0x0d;
  BOOST_TEST(says(read_idx(folder.write("a", floats)), {"type 13"}));
}

BOOST_AUTO_TEST_CASE(ImagesTakenForLabelsAreAnError) {
  const TempFolder folder;
  BOOST_TEST(says(read_idx_labels(folder.write("a", kImages)), {"are these images?"}));
}

BOOST_AUTO_TEST_CASE(AMissingFileAFolderAndAPipeAreErrors) {
  const TempFolder folder;
  const auto missing = read_idx(folder / "nothing");
  BOOST_TEST(says(missing, {"nothing", "No such file"}));
  BOOST_TEST((missing.error().kind == ErrorKind::missing));
  BOOST_TEST(says(read_idx(folder.path()), {"is a folder"}));
  BOOST_REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  BOOST_TEST(says(read_idx(folder / "pipe"), {"not a regular file"}));
}

BOOST_AUTO_TEST_SUITE_END()
