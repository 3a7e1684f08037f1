#include <troupe/ps/data/internal/utf8.h>

namespace troupe::ps::internal {

std::optional<CodePoint> code_point_at(std::string_view text, size_t at) {
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // by length: below it, a shorter form exists
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  if (at >= text.size()) return {};
  const uint32_t first = byte(at);
  if (first < 0x80) return CodePoint{first, 1};
  const size_t bytes = first >= 0xF0 && first < 0xF8 ? 4 : first >= 0xE0 && first < 0xF0 ? 3 : first >= 0xC0 ? 2 : 0;
  if (bytes == 0 || first >= 0xF8 || at + bytes > text.size()) return {};
  uint32_t value = first & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xC0u) != 0x80) return {};
    value = value << 6 | (byte(at + i) & 0x3Fu);
  }
  if (value < kLeast[bytes] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return {};
  return CodePoint{value, bytes};
}

std::string utf8_of(uint32_t c) {
  const auto tail = [](uint32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(c)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), tail(c >> 6), tail(c)};
  return {static_cast<char>(0xF0 | c >> 18), tail(c >> 12), tail(c >> 6), tail(c)};
}

}  // namespace troupe::ps::internal
