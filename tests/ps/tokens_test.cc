// Token files, the data set made of them, and whole texts as load_dataset reads them.
#include <boost/test/unit_test.hpp>

#include <cstring>

#include <tests/support/temp_folder.h>
#include <tests/support/tensors.h>
#include <troupe/ps/data/load_dataset.h>
#include <troupe/ps/data/token_dataset.h>
#include <troupe/ps/data/token_file.h>

using namespace troupe;
using namespace troupe::ps;

namespace {

template <class T>
std::string bytes_of(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  if (!numbers.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::string header(int32_t magic, int32_t version, int32_t count) {
  std::vector<int32_t> numbers(256);
  numbers[0] = magic, numbers[1] = version, numbers[2] = count;
  return bytes_of(numbers);
}

const std::vector<uint16_t> kShort{3, 1, 4, 1, 5, 9, 2, 6};

struct Files {
  test::TempFolder folder;

  std::string write(const std::string& name, const std::string& bytes) const { return folder.write(name, bytes); }
  std::vector<int32_t> read(const std::string& bytes) const {
    const auto tokens = read_tokens(write("t.bin", bytes));
    BOOST_REQUIRE_MESSAGE(tokens.has_value(), (tokens ? "" : tokens.error().message));
    return {tokens->span<int32_t>().begin(), tokens->span<int32_t>().end()};
  }
  void refused(const std::string& bytes, const std::string& text) const {
    const auto tokens = read_tokens(write("t.bin", bytes));
    BOOST_REQUIRE_MESSAGE(!tokens.has_value(), text);
    BOOST_TEST((tokens.error().kind == ErrorKind::corrupt));
    BOOST_TEST(tokens.error().message.find(text) != std::string::npos, tokens.error().message);
  }
  DataOptions options() const {
    DataOptions o;
    o.format = "text";
    o.path = folder.path();
    o.train_text = "train.txt";
    o.context = 4;
    return o;
  }
};

std::string error_of(const DataOptions& o) {
  const auto sets = load_dataset(o);
  return sets ? "(no error)" : sets.error().message;
}

Tensor row(const std::vector<int32_t>& tokens) {
  return Tensor::from(std::span<const int32_t>(tokens), {static_cast<int64_t>(tokens.size())});
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tokens, Files)

BOOST_AUTO_TEST_CASE(FilesOfLlmCAndPlainOnesHoldTheSameTokens) {
  const std::vector<int32_t> expected(kShort.begin(), kShort.end());
  BOOST_TEST(read(header(20240520, 1, 8) + bytes_of(kShort)) == expected);
  BOOST_TEST(read(bytes_of(kShort)) == expected);
  const std::vector<uint32_t> wide{3, 128000, 4};
  BOOST_TEST(read(header(20240801, 7, 3) + bytes_of(wide)) == (std::vector<int32_t>{3, 128000, 4}));
  BOOST_TEST(read("").empty());
}

BOOST_AUTO_TEST_CASE(AHeaderThatLiesIsRefused) {
  refused(header(20240520, 1, 9) + bytes_of(kShort), "announces 9 tokens of 2 bytes, but 16 bytes follow");
  refused(header(20240520, 1, 7) + bytes_of(kShort), "announces 7 tokens");
  refused(header(20240520, 1, -1) + bytes_of(kShort), "announces -1 tokens");
  refused(header(20240801, 7, 2000000000) + bytes_of(kShort), "announces 2000000000 tokens of 4 bytes");
}

BOOST_AUTO_TEST_CASE(AnotherVersionIsRefused) {
  refused(header(20240520, 2, 8) + bytes_of(kShort), "version 2");
}

BOOST_AUTO_TEST_CASE(AFileThatEndsWithinItsHeaderOrATokenIsRefused) {
  refused(header(20240520, 1, 8).substr(0, 100), "cut short");
  refused("abc", "half a one");
}

BOOST_AUTO_TEST_CASE(ATokenThatNoVocabularyHasIsRefused) {
  refused(header(20240801, 7, 1) + bytes_of(std::vector<uint32_t>{0xFFFFFFFF}), "token 0 is 4294967295");
}

BOOST_AUTO_TEST_CASE(LabelsAreTheTokensThatFollow) {
  const auto set = TokenDataset::make("x", row({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), 3, 10).value();
  BOOST_TEST(set->size() == 3);
  Tensor inputs = Tensor::empty({2, 3}, DType::i32), labels = inputs.clone();
  set->gather(std::vector<uint32_t>{2, 0}, inputs, labels);
  BOOST_TEST(test::same_bits(inputs, row({6, 7, 8, 0, 1, 2}).reshaped({2, 3})));
  BOOST_TEST(test::same_bits(labels, row({7, 8, 9, 1, 2, 3}).reshaped({2, 3})));
}

BOOST_AUTO_TEST_CASE(ATextTooShortForOneSampleIsRefused) {
  BOOST_TEST(TokenDataset::make("x", row({0, 1, 2}), 2, 10).has_value());
  const auto set = TokenDataset::make("x", row({0, 1, 2}), 3, 10);
  BOOST_REQUIRE(!set.has_value());
  BOOST_TEST(set.error().message.find("x has 3 tokens; one sample takes model.context = 3") == 0, set.error().message);
}

BOOST_AUTO_TEST_CASE(ATokenBeyondTheVocabularyIsRefusedWithItsPlace) {
  const auto set = TokenDataset::make("x", row({0, 1, 10, 2}), 2, 10);
  BOOST_REQUIRE(!set.has_value());
  BOOST_TEST(set.error().message.find("x: token 2 is 10, but the model knows 10 tokens") == 0, set.error().message);
}

BOOST_AUTO_TEST_CASE(TheEndOfATextIsKeptForTestingUnlessAnotherFileIs) {
  write("train.txt", "abcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdab");
  DataOptions o = options();
  o.test_share = 0.2;
  auto sets = load_dataset(o);
  BOOST_REQUIRE_MESSAGE(sets.has_value(), (sets ? "" : sets.error().message));
  BOOST_TEST(sets->train->size() == 9);  // of 40 characters
  BOOST_TEST(sets->test->size() == 2);   // of 10
  BOOST_TEST(sets->train->classes() == 4);
  BOOST_TEST((sets->train->sample_shape() == Shape{4}));
  write("test.txt", "dcbadcba\n");
  o.test_text = "test.txt";
  BOOST_TEST(error_of(o).find("test.txt: the character \n at byte 8 is none of the 4") != std::string::npos,
             error_of(o));
  write("test.txt", "dcbadcba");
  sets = load_dataset(o);
  BOOST_REQUIRE(sets.has_value());
  BOOST_TEST(sets->train->size() == 12);
  BOOST_TEST(sets->test->size() == 1);
}

BOOST_AUTO_TEST_CASE(AVocabularyThatDoesNotFitTheDataIsRefused) {
  write("train.txt", "abcdabcdabcdabcdabcdabcd");
  DataOptions o = options();
  o.test_share = 0.4;
  o.vocabulary = 3;
  BOOST_TEST(error_of(o).find("model.vocabulary = 3 is less than the 4 tokens") == 0, error_of(o));
  o.vocabulary = 64;
  BOOST_TEST(load_dataset(o)->train->classes() == 64);
  write("train.txt", bytes_of(std::vector<uint16_t>(40, 7)));
  o.format = "tokens";
  o.vocabulary = 7;
  BOOST_TEST(error_of(o).find("token 0 is 7, but the model knows 7 tokens") != std::string::npos, error_of(o));
  o.vocabulary = 0;
  BOOST_TEST(load_dataset(o)->train->classes() == 8);
}

BOOST_AUTO_TEST_CASE(AMissingTextIsMissing) {
  BOOST_TEST((load_dataset(options()).error().kind == ErrorKind::missing));
}

BOOST_AUTO_TEST_SUITE_END()
