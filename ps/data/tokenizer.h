#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// Text as numbers and back. Immutable: every function may be called from any number of threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Tokens are below this.
  virtual int64_t vocabulary() const = 0;

  /// `text` is UTF-8. ErrorKind::invalid where it is not, or holds what the vocabulary does not have; the message says
  /// at which byte.
  virtual Result<std::vector<int32_t>> encode(std::string_view text) const = 0;

  /// The bytes of the tokens, which need not be whole characters; tokens outside the vocabulary are left out.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
};

/// A token for each different character of `text` (a Unicode code point), in their order. ErrorKind::invalid where it
/// holds none or is not UTF-8.
Result<std::shared_ptr<const Tokenizer>> make_character_tokenizer(std::string_view text);

/// GPT-2's byte pairs (Sennrich et al. 2016; Radford et al. 2019) from the files that are published with it:
///   vocab_path   vocab.json: {"token": number, ...}, every byte written as one character (space as U+0120, ...)
///   merges_path  merges.txt: a comment line, then two tokens a line that become one, most frequent first
/// Text is first cut into words by GPT-2's pattern, with Unicode's letters, numbers and spaces; pairs are joined inside
/// of words. All bytes have tokens, so that any UTF-8 text can be encoded. Special tokens such as <|endoftext|> are
/// decoded, but not looked for in text.
///
/// ErrorKind::corrupt with file and line: a merge of what is not a token, or of what only a later one makes; numbers
/// that are not 0 .. n-1, each once; a byte without a token.
Result<std::shared_ptr<const Tokenizer>> read_gpt2_tokenizer(const std::string& vocab_path,
                                                             const std::string& merges_path);

}  // namespace troupe::ps
