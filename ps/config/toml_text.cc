#include <troupe/ps/config/toml_text.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace troupe::ps {
namespace {

template <class T>
std::string list_text(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + toml_text(value);
  return text + "]";
}

}  // namespace

std::string toml_text(bool value) { return value ? "true" : "false"; }

std::string toml_text(int64_t value) { return std::to_string(value); }

std::string toml_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string toml_text(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      std::array<char, 8> code;
      std::snprintf(code.data(), code.size(), "\\u%04X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      text += code.data();
    } else {
      text += c;
    }
  }
  return text + "\"";
}

std::string toml_text(const std::vector<int64_t>& values) { return list_text(values); }

std::string toml_text(const std::vector<double>& values) { return list_text(values); }

}  // namespace troupe::ps
