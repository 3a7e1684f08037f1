#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/data/internal/byte_pairs.h>
#include <troupe/ps/data/internal/utf8.h>
#include <troupe/ps/data/internal/words.h>
#include <troupe/ps/data/text_file.h>
#include <troupe/ps/data/tokenizer.h>

namespace troupe::ps {
namespace {

using internal::BytePairs;

// GPT-2's files write bytes that print in Latin-1 as the character of their number, all others, in order, as U+0100 on.
std::array<uint32_t, 256> characters_of_bytes() {
  std::array<uint32_t, 256> characters{};
  uint32_t other = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    characters[byte] = prints ? byte : other++;
  }
  return characters;
}

struct Vocabulary {
  std::vector<std::string> bytes;                    ///< by token
  std::unordered_map<std::string, int32_t> numbers;  ///< by the token's bytes
};

class Gpt2Tokenizer final : public Tokenizer {
 public:
  Gpt2Tokenizer(Vocabulary vocabulary, BytePairs pairs, std::array<int32_t, 256> of_byte)
      : vocabulary_(std::move(vocabulary)), pairs_(std::move(pairs)), of_byte_(of_byte) {}

  int64_t vocabulary() const override { return static_cast<int64_t>(vocabulary_.bytes.size()); }

  Result<std::vector<int32_t>> encode(std::string_view text) const override {
    std::vector<int32_t> tokens;
    std::unordered_map<std::string_view, std::vector<int32_t>> known;  // words come again and again
    const Status cut = words_.cut(text, [&](std::string_view word) {
      auto& joined = known[word];
      if (joined.empty()) {
        for (const char byte : word) joined.push_back(of_byte_[static_cast<uint8_t>(byte)]);
        pairs_.join(joined);
      }
      tokens.insert(tokens.end(), joined.begin(), joined.end());
    });
    if (!cut) return tl::unexpected(cut.error());
    return tokens;
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens)
      if (token >= 0 && token < vocabulary()) text += vocabulary_.bytes[static_cast<size_t>(token)];
    return text;
  }

 private:
  internal::Words words_;
  Vocabulary vocabulary_;
  BytePairs pairs_;
  std::array<int32_t, 256> of_byte_;
};

// Reads the two files of one tokenizer.
class Reader {
 public:
  Reader(const std::string& vocab_path, const std::string& merges_path)
      : vocab_path_(vocab_path), merges_path_(merges_path) {
    const auto characters = characters_of_bytes();
    for (uint32_t byte = 0; byte < 256; ++byte) bytes_[characters[byte]] = static_cast<char>(byte);
  }

  Result<std::shared_ptr<const Tokenizer>> read() {
    TROUPE_TRY(read_vocabulary());
    TROUPE_TRY(find_bytes());
    TROUPE_TRY(read_merges());
    return std::make_shared<const Gpt2Tokenizer>(std::move(vocabulary_), std::move(pairs_), of_byte_);
  }

 private:
  Status read_vocabulary() {
    const auto text = read_text_file(vocab_path_);
    if (!text) return tl::unexpected(text.error());
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (!json.is_object() || json.empty())
      return corrupt(vocab_path_, "is not a JSON object {\"token\": number, ...}");
    vocabulary_.bytes.resize(json.size());
    std::vector<bool> taken(json.size());
    for (const auto& [token, number] : json.items()) {
      const bool fits = number.is_number_integer() && number >= 0 && number < json.size() &&
                        number < std::numeric_limits<int32_t>::max();
      if (!fits || taken[number.get<size_t>()])
        return corrupt(vocab_path_, cat("gives the token ", token, " the number ", number.dump(), "; ", json.size(),
                                        " tokens have the numbers 0 .. ", json.size() - 1, ", each once"));
      const auto at = number.get<size_t>();
      taken[at] = true;
      vocabulary_.bytes[at] = bytes_of(token);
      vocabulary_.numbers[vocabulary_.bytes[at]] = static_cast<int32_t>(at);
    }
    return {};
  }

  Status find_bytes() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const auto found = vocabulary_.numbers.find(std::string(1, static_cast<char>(byte)));
      if (found == vocabulary_.numbers.end())
        return corrupt(vocab_path_, cat("has no token for the byte ", byte, " alone; a vocabulary of byte pairs begins "
                                        "with all 256"));
      of_byte_[byte] = found->second;
      made_.insert(found->second);
    }
    return {};
  }

  Status read_merges() {
    const auto text = read_text_file(merges_path_);
    if (!text) return tl::unexpected(text.error());
    size_t line_number = 0;
    for (size_t at = 0; at < text->size();) {
      const size_t end = std::min(text->find('\n', at), text->size());
      std::string_view line(text->data() + at, end - at);
      if (line.ends_with('\r')) line.remove_suffix(1);
      ++line_number;
      at = end + 1;
      if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
      TROUPE_TRY(take_merge(line, line_number));
    }
    return {};
  }

  Status take_merge(std::string_view line, size_t line_number) {
    const std::string place = cat(merges_path_, ":", line_number);
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
      return corrupt(place, "is not two tokens with a space between them");
    const std::string left = bytes_of(line.substr(0, space)), right = bytes_of(line.substr(space + 1));
    int32_t tokens[3];
    for (const auto& [bytes, token] : {std::pair(left, &tokens[0]), {right, &tokens[1]}, {left + right, &tokens[2]}}) {
      const auto found = vocabulary_.numbers.find(bytes);
      if (found == vocabulary_.numbers.end())
        return corrupt(place, cat("makes or uses a token of ", bytes.size(), " bytes that ", vocab_path_,
                                  " does not have: the two files do not belong together"));
      *token = found->second;
    }
    if (!made_.contains(tokens[0]) || !made_.contains(tokens[1]))
      return corrupt(place, "joins what no line before it makes");
    if (!pairs_.add(tokens[0], tokens[1], tokens[2])) return corrupt(place, "repeats a line before it");
    made_.insert(tokens[2]);
    return {};
  }

  // A token that holds other characters than those that stand for bytes (a special one) is the text that it looks like.
  std::string bytes_of(std::string_view token) const {
    std::string bytes;
    for (size_t at = 0; at < token.size();) {
      const auto c = internal::code_point_at(token, at);
      const auto found = c ? bytes_.find(c->value) : bytes_.end();
      if (found == bytes_.end()) return std::string(token);
      bytes += found->second;
      at += c->bytes;
    }
    return bytes;
  }

  static tl::unexpected<Error> corrupt(const std::string& place, const std::string& what) {
    return fail(ErrorKind::corrupt, cat(place, " ", what));
  }

  const std::string &vocab_path_, &merges_path_;
  std::unordered_map<uint32_t, char> bytes_;  ///< by the character that stands for it
  Vocabulary vocabulary_;
  BytePairs pairs_;
  std::array<int32_t, 256> of_byte_{};
  std::unordered_set<int32_t> made_;  ///< tokens that bytes and the merges so far make
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> read_gpt2_tokenizer(const std::string& vocab_path,
                                                             const std::string& merges_path) {
  return Reader(vocab_path, merges_path).read();
}

}  // namespace troupe::ps
