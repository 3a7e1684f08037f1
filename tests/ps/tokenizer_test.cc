#include <boost/test/unit_test.hpp>

#include <tests/support/temp_folder.h>
#include <troupe/ps/data/internal/utf8.h>
#include <troupe/ps/data/internal/words.h>
#include <troupe/ps/data/tokenizer.h>

using namespace troupe;
using namespace troupe::ps;
using Tokens = std::vector<int32_t>;

namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  const Status cut = internal::Words().cut(text, [&](std::string_view word) { words.emplace_back(word); });
  BOOST_REQUIRE_MESSAGE(cut.has_value(), (cut ? "" : cut.error().message));
  return words;
}

// Bytes in the order of GPT-2's vocabulary: those that print, then the others.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> printing, others;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    if (prints) printing.push_back(internal::utf8_of(byte));
    if (!prints) others.push_back(internal::utf8_of(0x100 + static_cast<uint32_t>(others.size())));
  }
  printing.insert(printing.end(), others.begin(), others.end());
  return printing;
}

struct Files {
  test::TempFolder folder;
  std::vector<std::string> tokens = byte_tokens();
  std::string merges = "#version: 0.2\n";

  Files() {
    for (const char* merge : {"l l", "h e", "\u0120 w", "he ll", "hell o", "\u0120w o", "a a"}) add(merge);
    tokens.push_back("<|endoftext|>");  // 263
  }
  // Tokens of merges are 256, 257, ...
  void add(const std::string& merge) {
    merges += merge + "\n";
    std::string joined = merge;
    joined.erase(joined.find(' '), 1);
    tokens.push_back(joined);
  }
  std::string vocabulary() const {
    std::string json = "{";
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string escaped;
      for (char c : tokens[i]) escaped += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
      json += (i ? ", \"" : "\"") + escaped + "\": " + std::to_string(i);
    }
    return json + "}";
  }
  Result<std::shared_ptr<const Tokenizer>> read(const std::string& vocabulary) const {
    return read_gpt2_tokenizer(folder.write("vocab.json", vocabulary), folder.write("merges.txt", merges));
  }
  Tokens encode(const std::string& text) const { return read(vocabulary()).value()->encode(text).value(); }
  void refused(const std::string& vocabulary, const std::string& text) const {
    const auto made = read(vocabulary);
    BOOST_REQUIRE_MESSAGE(!made.has_value(), text);
    BOOST_TEST((made.error().kind == ErrorKind::corrupt));
    BOOST_TEST(made.error().message.find(text) != std::string::npos, made.error().message);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tokenizers, Files)

BOOST_AUTO_TEST_CASE(CharactersAreNumberedInTheirOrder) {
  const auto tokenizer = make_character_tokenizer("hello\u00e9").value();
  BOOST_TEST(tokenizer->vocabulary() == 5);
  BOOST_TEST(tokenizer->encode("hole\u00e9").value() == (Tokens{1, 3, 2, 0, 4}));
  BOOST_TEST(tokenizer->decode(Tokens{1, 0, 4, 77, -1}) == "he\u00e9");
}

BOOST_AUTO_TEST_CASE(CharactersThatAreNotKnownAndBytesThatAreNoneAreRefused) {
  const auto tokenizer = make_character_tokenizer("abc").value();
  BOOST_TEST(tokenizer->encode("ab\u00e9").error().message.find("the character \u00e9 at byte 2") == 0);
  BOOST_TEST(make_character_tokenizer("ab\xff").error().message.find("byte 2 begins no character of UTF-8") == 0);
  BOOST_TEST(!make_character_tokenizer("\xc0\x80").has_value());      // longer than needed
  BOOST_TEST(!make_character_tokenizer("\xed\xa0\x80").has_value());  // a surrogate
  BOOST_TEST(!make_character_tokenizer("\xe2\x82").has_value());      // cut short
  BOOST_TEST(!make_character_tokenizer("").has_value());
}

BOOST_AUTO_TEST_CASE(TextIsCutIntoGpt2sWords) {
  BOOST_TEST(words_of("Hello world's 42  cats\n\n  x!?") ==
             (std::vector<std::string>{"Hello", " world", "'s", " 42", " ", " cats", "\n\n ", " x", "!?"}));
  BOOST_TEST(words_of("I'll we've 'tis  ") ==
             (std::vector<std::string>{"I", "'ll", " we", "'ve", " '", "tis", "  "}));
}

BOOST_AUTO_TEST_CASE(LettersNumbersAndSpacesAreThoseOfUnicode) {
  BOOST_TEST(words_of("na\u00efve \u65e5\u672c 12\u00bd\u00a0b") ==
             (std::vector<std::string>{"na\u00efve", " \u65e5\u672c", " 12\u00bd", "\u00a0", "b"}));
}

BOOST_AUTO_TEST_CASE(PairsAreJoinedByTheirRank) {
  BOOST_TEST(encode("hello") == (Tokens{260}));
  BOOST_TEST(encode("hell") == (Tokens{259}));
  BOOST_TEST(encode(" wow") == (Tokens{261, 'w' - '!'}));
  BOOST_TEST(encode("aaaaa") == (Tokens{262, 262, 'a' - '!'}));  // the leftmost first
  BOOST_TEST(encode("hello hello") == (Tokens{260, 220, 260}));  // 220 is the space
  BOOST_TEST(encode("").empty());
}

BOOST_AUTO_TEST_CASE(AnyTextComesBack) {
  const auto tokenizer = read(vocabulary()).value();
  for (const std::string& text : {std::string("hello w\u00f6rld \u65e5\n\t x"), std::string("a\0b", 3)})
    BOOST_TEST(tokenizer->decode(tokenizer->encode(text).value()) == text);
  BOOST_TEST(tokenizer->decode(Tokens{263}) == "<|endoftext|>");
  BOOST_TEST(tokenizer->vocabulary() == 264);
  BOOST_TEST(tokenizer->encode("ab\xff").error().message.find("byte 2") == 0);
}

BOOST_AUTO_TEST_CASE(ALongWordTakesNoTimeToSpeakOf) {
  const Tokens tokens = encode(std::string(200000, 'a'));
  BOOST_TEST(tokens.size() == 100000u);
}

BOOST_AUTO_TEST_CASE(AVocabularyThatIsNoneIsRefused) {
  refused("[1, 2]", "is not a JSON object");
  refused("{\"a\": 0, \"b\": 0}", "the number 0");
  refused("{\"a\": 0, \"b\": 2}", "the number 2");
  refused("{\"a\": 0, \"b\": \"1\"}", "the number \"1\"");
  refused("{\"a\": 0, \"b\": 1}", "has no token for the byte 0 alone");
}

BOOST_AUTO_TEST_CASE(MergesThatDoNotBelongToTheVocabularyAreRefusedWithTheirLine) {
  const std::string whole = vocabulary(), good = merges;
  merges = good + "x y\n";
  refused(whole, "merges.txt:9 makes or uses a token of 2 bytes");
  merges = good + "h e\n";
  refused(whole, "merges.txt:9 repeats a line before it");
  merges = good + "hello\n";
  refused(whole, "merges.txt:9 is not two tokens");
  merges = "he ll\n";
  refused(whole, "merges.txt:1 joins what no line before it makes");
}

BOOST_AUTO_TEST_SUITE_END()
