#include <troupe/ps/metrics/human.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {
namespace {

template <class... Args>
std::string print(const char* format, Args... args) {
  std::array<char, 400> text;
  std::snprintf(text.data(), text.size(), format, args...);
  return text.data();
}

std::string padded(const std::string& cell, size_t width, bool left) {
  const std::string space(width - cell.size(), ' ');
  return left ? cell + space : space + cell;
}

}  // namespace

std::string human_count(int64_t value) {
  std::string text = std::to_string(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t i = text.size(); i > first + 3;) text.insert(i -= 3, ",");
  return text;
}

std::string human_bytes(int64_t bytes) {
  if (bytes < 1000) return print("%lld B", static_cast<long long>(bytes));
  constexpr std::array<const char*, 5> units = {"kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  // 999.95 would be printed as 1000.0.
  while (value >= 999.95 && unit + 1 < units.size()) value /= 1000, ++unit;
  return print("%.1f %s", value, units[unit]);
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 9.95) return print("%.1f s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) return print("%lld s", whole);
  if (whole < 3600) return print("%lld min %02lld s", whole / 60, whole % 60);
  return print("%lld h %02lld min", whole / 3600, whole % 3600 / 60);
}

std::string human_share(double share) { return std::isfinite(share) ? print("%.1f %%", share * 100) : "-"; }

std::string fixed(double value, int digits) { return std::isfinite(value) ? print("%.*f", digits, value) : "-"; }

std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    TROUPE_CHECK(row.size() == rows[0].size(), row.size(), " cells under ", rows[0].size(), " headings");
    widths.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += (i ? "  " : "") + padded(row[i], widths[i], i == 0);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace troupe::ps
