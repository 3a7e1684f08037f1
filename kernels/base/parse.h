#pragma once
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace troupe {

/// `text` without the spaces and tabs around it.
inline std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// The number that the whole of `text` is, the same in every locale; none where it is not one, or not one that T
/// can hold. A floating-point T takes "inf" and "nan".
template <class T>
std::optional<T> number_from(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);  // one sign
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace troupe
