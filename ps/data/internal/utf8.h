#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::ps::internal {

/// The code point that begins at text[at], and how many bytes it takes; none where that is not UTF-8 (RFC 3629: cut
/// short, longer than needed, a surrogate, beyond U+10FFFF).
struct CodePoint {
  uint32_t value;
  size_t bytes;
};
std::optional<CodePoint> code_point_at(std::string_view text, size_t at);

std::string utf8_of(uint32_t code_point);

}  // namespace troupe::ps::internal
