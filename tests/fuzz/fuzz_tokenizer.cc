// Inputs are lines of merges and, behind a zero byte, a text.
#include <troupe/ps/data/tokenizer.h>

#include <set>

#include <tests/fuzz/contract.h>
#include <troupe/ps/data/internal/utf8.h>
#include <troupe/ps/data/internal/words.h>

using namespace troupe;
using namespace troupe::fuzz;

namespace {

/// Words are the text, cut; they are cut, and characters told apart, exactly where the text is UTF-8.
void promise_words(std::string_view text) {
  std::string joined;
  const Status cut = ps::internal::Words().cut(text, [&](std::string_view word) {
    TROUPE_CHECK(!word.empty());
    joined += word;
  });
  TROUPE_CHECK(!cut || joined == text);
  const auto characters = ps::make_character_tokenizer(text);
  TROUPE_CHECK(characters.has_value() == (cut && !text.empty()));
  if (characters) TROUPE_CHECK((*characters)->decode(*(*characters)->encode(text)) == text);
}

/// A vocabulary in which every byte and every merge of the input has a token, written as GPT-2's is.
std::string vocabulary_of(std::string_view merges) {
  std::set<std::string> tokens;
  for (uint32_t byte = 0, other = 0x100; byte < 256; ++byte) {
    const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    tokens.insert(ps::internal::utf8_of(prints ? byte : other++));
  }
  while (!merges.empty()) {
    const size_t end = std::min(merges.find('\n'), merges.size() - 1);
    std::string token(merges.substr(0, end));
    std::erase(token, ' ');
    std::erase_if(token, [](char c) { return static_cast<uint8_t>(c) < 0x20 || static_cast<uint8_t>(c) > 0x7e; });
    if (!token.empty()) tokens.insert(token);
    merges.remove_prefix(end + 1);
  }
  std::string json = "{";
  int64_t number = 0;
  for (const std::string& token : tokens) {
    json += number ? ",\"" : "\"";
    for (const char c : token) json += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    json += "\":" + std::to_string(number++);
  }
  return json + "}";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static MemoryFile vocabulary, merges;
  const std::string_view input = text_of(data, size), lines = input.substr(0, input.find('\0'));
  const std::string_view text = input.substr(std::min(lines.size() + 1, input.size()));
  promise_words(text);
  merges.holding(lines);
  const auto raw = ps::read_gpt2_tokenizer(vocabulary.holding(lines), merges.path());
  TROUPE_CHECK(raw || raw.error().message.find("/proc/self/fd/") != std::string::npos, raw.error().message);
  const auto made = ps::read_gpt2_tokenizer(vocabulary.holding(vocabulary_of(lines)), merges.path());
  if (!made) {
    promise_named(made.error(), merges.path());
    return 0;
  }
  const auto tokens = (*made)->encode(text);
  if (tokens) TROUPE_CHECK((*made)->decode(*tokens) == text);
  return 0;
}
