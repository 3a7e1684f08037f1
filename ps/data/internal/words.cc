#define PCRE2_CODE_UNIT_WIDTH 8
#include <troupe/ps/data/internal/words.h>

#include <pcre2.h>

#include <troupe/kernels/base/text.h>
#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/text.h>

namespace troupe::ps::internal {
namespace {

constexpr char kPattern[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

std::string text_of(int code) {
  PCRE2_UCHAR text[120] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Words::Pattern {
  pcre2_code* code = nullptr;
  ~Pattern() { pcre2_code_free(code); }
};

Words::Words() : pattern_(std::make_unique<Pattern>()) {
  int error = 0;
  PCRE2_SIZE at = 0;
  // UCP: \s is any space of Unicode.
  pattern_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                 &error, &at, nullptr);
  TROUPE_CHECK(pattern_->code, "the pattern, at ", at, ": ", text_of(error));
  pcre2_jit_compile(pattern_->code, PCRE2_JIT_COMPLETE);  // a wish: without it, the same slower
}

Words::~Words() = default;
Words::Words(Words&&) noexcept = default;

Status Words::cut(std::string_view text, const std::function<void(std::string_view word)>& take) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(pattern_->code, nullptr));
  TROUPE_CHECK(match, "no memory for a match");
  const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  uint32_t options = 0;  // the first match looks through the whole text for what is not UTF-8
  for (size_t at = 0; at < text.size(); options = PCRE2_NO_UTF_CHECK) {
    const int found = pcre2_match(pattern_->code, subject, text.size(), at, options, match.get(), nullptr);
    if (found < 0 && found >= PCRE2_ERROR_UTF8_ERR21 && found <= PCRE2_ERROR_UTF8_ERR1)
      return fail(ErrorKind::invalid, cat("byte ", pcre2_get_startchar(match.get()),
                                          " begins no character of UTF-8; convert the text, with iconv say"));
    if (found < 0)
      return fail(ErrorKind::failed, cat("cutting text into words failed at byte ", at, ": ", text_of(found)));
    const PCRE2_SIZE* const span = pcre2_get_ovector_pointer(match.get());
    take(text.substr(span[0], span[1] - span[0]));
    at = span[1];
  }
  return {};
}

}  // namespace troupe::ps::internal
