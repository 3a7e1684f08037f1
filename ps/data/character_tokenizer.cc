#include <map>
#include <set>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/data/internal/utf8.h>
#include <troupe/ps/data/tokenizer.h>

namespace troupe::ps {
namespace {

using internal::code_point_at;

tl::unexpected<Error> not_utf8(size_t at) {
  return fail(ErrorKind::invalid, cat("byte ", at, " begins no character of UTF-8; convert the text, with iconv say"));
}

class CharacterTokenizer final : public Tokenizer {
 public:
  explicit CharacterTokenizer(const std::set<uint32_t>& characters) {
    for (const uint32_t c : characters) {
      numbers_[c] = static_cast<int32_t>(texts_.size());
      texts_.push_back(internal::utf8_of(c));
    }
  }

  int64_t vocabulary() const override { return static_cast<int64_t>(texts_.size()); }

  Result<std::vector<int32_t>> encode(std::string_view text) const override {
    std::vector<int32_t> tokens;
    for (size_t at = 0; at < text.size();) {
      const auto c = code_point_at(text, at);
      if (!c) return not_utf8(at);
      const auto found = numbers_.find(c->value);
      if (found == numbers_.end())
        return fail(ErrorKind::invalid, cat("the character ", text.substr(at, c->bytes), " at byte ", at,
                                            " is none of the ", texts_.size(), " that the training text holds"));
      tokens.push_back(found->second);
      at += c->bytes;
    }
    return tokens;
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens)
      if (token >= 0 && token < vocabulary()) text += texts_[static_cast<size_t>(token)];
    return text;
  }

 private:
  std::map<uint32_t, int32_t> numbers_;
  std::vector<std::string> texts_;  ///< by token
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_character_tokenizer(std::string_view text) {
  std::set<uint32_t> characters;
  for (size_t at = 0; at < text.size();) {
    const auto c = code_point_at(text, at);
    if (!c) return not_utf8(at);
    characters.insert(c->value);
    at += c->bytes;
  }
  if (characters.empty()) return fail(ErrorKind::invalid, "the text is empty");
  return std::make_shared<const CharacterTokenizer>(characters);
}

}  // namespace troupe::ps
