#include "nodelist.h"

#include <cstdint>

#include <troupe/kernels/base/parse.h>
#include <troupe/kernels/base/text.h>

namespace troupe::launch {
namespace {

using Names = std::vector<std::string>;

constexpr int kMostBrackets = 8;  // of one name; Slurm itself takes fewer

std::string padded(uint64_t number, size_t width) {
  std::string text = std::to_string(number);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Names> parse() {
    Names all;
    for (;;) {
      const auto names = entry();
      if (!names) return tl::unexpected(names.error());
      if (all.size() + names->size() > kMostNodes) return too_many();
      all.insert(all.end(), names->begin(), names->end());
      if (at_ == text_.size()) return all;
      ++at_;  // the comma
    }
  }

 private:
  bool at_end_of_entry() const { return at_ == text_.size() || text_[at_] == ','; }

  tl::unexpected<Error> wrong(const std::string& what) const {
    return fail(ErrorKind::invalid, cat("nodelist \"", text_.substr(0, 200), text_.size() > 200 ? "..." : "",
                                        "\", character ", at_ + 1, ": ", what));
  }
  tl::unexpected<Error> too_many() const { return wrong(cat("stands for more than ", kMostNodes, " hosts")); }

  /// Plain characters and brackets, up to a comma outside of brackets.
  Result<Names> entry() {
    if (at_end_of_entry()) return wrong("a host's name is missing");
    Names names{""};
    int brackets_so_far = 0;
    while (!at_end_of_entry()) {
      Names next{""};
      if (text_[at_] == '[') {
        if (++brackets_so_far > kMostBrackets) return wrong(cat("a name with more than ", kMostBrackets, " brackets"));
        auto numbers = brackets();
        if (!numbers) return numbers;
        next = std::move(*numbers);
      } else if (auto plain = take_plain(); plain) {
        next = {std::move(*plain)};
      } else {
        return tl::unexpected(plain.error());
      }
      if (names.size() * next.size() > kMostNodes) return too_many();
      Names longer;
      for (const std::string& name : names)
        for (const std::string& part : next) longer.push_back(name + part);
      names = std::move(longer);
      if (names.front().size() > 255) return wrong("a host's name has at most 255 characters");
    }
    return names;
  }

  Result<std::string> take_plain() {
    const size_t from = at_;
    for (; !at_end_of_entry() && text_[at_] != '['; ++at_) {
      const char c = text_[at_];
      const bool known = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
                         c == '_' || (c == '-' && at_ > 0 && text_[at_ - 1] != ',');
      if (!known) return wrong("no host's name has this character here");
    }
    return std::string(text_.substr(from, at_ - from));
  }

  /// "[01-03,7]".
  Result<Names> brackets() {
    Names numbers;
    do {
      ++at_;  // the bracket, or a comma
      size_t first_width = 0, last_width = 0;
      const auto first = number(first_width);
      if (!first) return tl::unexpected(first.error());
      uint64_t last = *first;
      if (at_ < text_.size() && text_[at_] == '-') {
        ++at_;
        const auto end = number(last_width);
        if (!end) return tl::unexpected(end.error());
        last = *end;
      }
      if (last < *first) return wrong("this range runs backwards");
      if (last - *first >= kMostNodes - numbers.size()) return too_many();
      for (uint64_t n = *first; n <= last; ++n) numbers.push_back(padded(n, first_width));
    } while (at_ < text_.size() && text_[at_] == ',');
    if (at_ == text_.size() || text_[at_] != ']') return wrong("expected ] or another number");
    ++at_;
    return numbers;
  }

  Result<uint64_t> number(size_t& width) {
    const size_t from = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    width = at_ - from;
    const auto value = number_from<uint64_t>(text_.substr(from, width));
    if (!value || width > 18) return wrong("expected a number");
    return *value;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<Names> expand_nodelist(std::string_view text) { return Parser(text).parse(); }

}  // namespace troupe::launch
