#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/ps/metrics/trace_file.h>

namespace troupe::ps {

/// What one row of a trace did with its time, between the first event and the last of all rows.
struct TrackSummary {
  struct Gap {
    double begin_us = 0, end_us = 0;
    std::string after, before;  ///< the events around it
    int64_t step = -1;          ///< of the one before it
    double length_us() const { return end_us - begin_us; }
  };
  struct Kind {
    std::string name;
    int64_t count = 0;
    double total_us = 0;
  };

  std::string process, track;
  int64_t events = 0;
  double busy_us = 0;       ///< covered by at least one event
  double window_us = 0;
  std::vector<Gap> gaps;    ///< the longest first, between events of the row
  std::vector<Kind> kinds;  ///< what took most first
  double busy_share() const { return window_us > 0 ? busy_us / window_us : 0; }
};

/// By row, with at most `gaps` gaps each.
std::vector<TrackSummary> summarize_trace(const TraceContent& content, size_t gaps = 3);

/// Two tables, of the rows and of what they did, then a line on what is missing.
std::string trace_text(const std::vector<TrackSummary>& tracks, int64_t lost);

}  // namespace troupe::ps
