#include <troupe/ps/metrics/cut_rows.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include <troupe/kernels/base/parse.h>
#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

/// Which field of a CSV file with this header holds the step.
std::optional<int64_t> step_column(std::string_view header) {
  const std::string framed = "," + std::string(header) + ",";
  const size_t at = framed.find(",step,");
  if (at == std::string::npos) return {};
  return std::count(framed.begin(), framed.begin() + static_cast<std::ptrdiff_t>(at), ',');
}

std::optional<int64_t> csv_step(std::string_view line, int64_t column) {
  for (; column > 0; --column) {
    const size_t comma = line.find(',');
    if (comma == std::string_view::npos) return {};
    line.remove_prefix(comma + 1);
  }
  return number_from<int64_t>(line.substr(0, line.find(',')));
}

std::optional<int64_t> json_step(const std::string& line) {
  const auto row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) return {};
  return row["step"].get<int64_t>();
}

/// Bytes of the lines that stay.
uint64_t kept_bytes(std::istream& file, bool csv, int64_t last_step) {
  uint64_t bytes = 0;
  std::optional<int64_t> column;
  for (std::string line; std::getline(file, line) && !file.eof(); bytes += line.size() + 1) {
    if (csv && bytes == 0) {
      column = step_column(line);
      continue;
    }
    const auto step = !csv ? json_step(line) : column ? csv_step(line, *column) : std::nullopt;
    if (step && *step > last_step) break;
  }
  return bytes;
}

}  // namespace

Status cut_rows_after(const std::string& path, int64_t last_step) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail(ErrorKind::failed, path + ": cannot be read, so that the rows after the checkpoint stay in it");
  const uint64_t kept = kept_bytes(file, path.ends_with(".csv"), last_step);
  if (kept < std::filesystem::file_size(path, error)) std::filesystem::resize_file(path, kept, error);
  if (error)
    return fail(ErrorKind::failed, cat(path, ": rows after the checkpoint cannot be cut off: ", error.message()));
  return {};
}

}  // namespace troupe::ps
