#include "incident.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include <troupe/kernels/base/text.h>

namespace troupe::launch {
namespace {

const char* text_of(Incident::Done done) {
  switch (done) {
    case Incident::Done::restarted: return "started again";
    case Incident::Done::dropped: return "dropped";
    case Incident::Done::ended_the_run: return "ended the run";
    case Incident::Done::nothing: return "nothing: the run was over";
  }
  return "";
}

std::string time_text(Moment at) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(at.count()) / 1000);
  return text;
}

using Row = std::array<std::string, 6>;

Row row_of(const Incident& i) {
  return {time_text(i.at),
          i.who,
          i.host,
          i.pid > 0 ? std::to_string(i.pid) : "-",
          i.what.empty() ? text_of(i.ending) : i.what,
          text_of(i.done)};
}

}  // namespace

std::string incident_table(const std::vector<Incident>& incidents) {
  std::vector<Row> rows{{"after", "who", "host", "pid", "what happened", "what was done"}};
  for (const Incident& incident : incidents) rows.push_back(row_of(incident));
  Row::value_type::size_type widths[6] = {};
  for (const Row& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c + 1 < rows[r].size(); ++c)
      text += rows[r][c] + std::string(widths[c] - rows[r][c].size() + 2, ' ');
    text += rows[r].back() + '\n';
    if (r == 0) continue;
    for (const std::string& line : incidents[r - 1].stderr_lines) text += cat("    | ", line, '\n');
  }
  return text;
}

}  // namespace troupe::launch
