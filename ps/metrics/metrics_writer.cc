#include <troupe/ps/metrics/metrics_writer.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::ps {
namespace {

/// Not there: an empty cell, null.
using Cell = std::variant<std::monostate, int64_t, double>;

Cell cell(const std::optional<double>& value) { return value ? Cell(*value) : Cell(); }

/// The columns of both files, in their order.
std::vector<std::pair<const char*, Cell>> cells(const MetricsRow& r) {
  return {{"time_s", r.time_s},
          {"step", r.step},
          {"epoch", r.epoch},
          {"loss", r.loss},
          {"accuracy", cell(r.accuracy)},
          {"test_loss", cell(r.test_loss)},
          {"test_accuracy", cell(r.test_accuracy)},
          {"samples", r.samples},
          {"samples_per_second", r.samples_per_second},
          {"learning_rate", r.learning_rate},
          {"staleness_p50", r.staleness_p50},
          {"staleness_p95", r.staleness_p95},
          {"staleness_max", r.staleness_max},
          {"wait_share", r.wait_share},
          {"loss_scale", r.loss_scale},
          {"skipped_steps", r.skipped_steps}};
}

nlohmann::ordered_json json_of(const Cell& cell) {
  if (const auto* i = std::get_if<int64_t>(&cell)) return *i;
  // JSON has no NaN; a diverged loss is null.
  if (const auto* d = std::get_if<double>(&cell); d && std::isfinite(*d)) return *d;
  return nullptr;
}

std::string csv_of(const Cell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return "";
  if (const auto* d = std::get_if<double>(&cell); d && !std::isfinite(*d)) return std::isnan(*d) ? "nan" : "inf";
  return json_of(cell).dump();
}

Status open_into(std::optional<LineFile>& file, const std::string& path) {
  if (path.empty()) return {};
  auto opened = LineFile::open(path);
  if (!opened) return tl::unexpected<Error>(opened.error());
  file = std::move(*opened);
  return {};
}

}  // namespace

Result<MetricsWriter> MetricsWriter::open(const std::string& csv_path, const std::string& jsonl_path) {
  MetricsWriter writer;
  TROUPE_TRY(open_into(writer.csv_, csv_path));
  TROUPE_TRY(open_into(writer.jsonl_, jsonl_path));
  if (writer.csv_ && writer.csv_->empty()) {
    std::string header;
    for (const auto& [name, value] : cells({})) header += (header.empty() ? "" : ",") + std::string(name);
    writer.csv_->append(header);
  }
  return writer;
}

void MetricsWriter::write(const MetricsRow& row) {
  std::string line;
  nlohmann::ordered_json object;
  for (const auto& [name, value] : cells(row)) {
    line += (object.empty() ? "" : ",") + csv_of(value);
    object[name] = json_of(value);
  }
  if (csv_) csv_->append(line);
  if (jsonl_) jsonl_->append(object.dump());
}

int64_t MetricsWriter::failures() const { return (csv_ ? csv_->failures() : 0) + (jsonl_ ? jsonl_->failures() : 0); }

}  // namespace troupe::ps
