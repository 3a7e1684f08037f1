#include <troupe/ps/metrics/trace_summary.h>

#include <algorithm>
#include <limits>
#include <map>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/human.h>

namespace troupe::ps {
namespace {

// One pass over the events by their begin, which leaves out what others cover.
void measure(TrackSummary& summary, const std::vector<TracedEvent>& events) {
  const TracedEvent* last = nullptr;  // that ends latest so far
  std::map<std::string, TrackSummary::Kind> kinds;
  for (const TracedEvent& event : events) {
    const double covered_to = last ? last->end_us : event.begin_us;
    summary.busy_us += std::max(0.0, event.end_us - std::max(covered_to, event.begin_us));
    if (last && event.begin_us > covered_to)
      summary.gaps.push_back({covered_to, event.begin_us, last->name, event.name, last->step});
    if (!last || event.end_us >= last->end_us) last = &event;
    TrackSummary::Kind& kind = kinds[event.name];
    kind.name = event.name;
    ++kind.count;
    kind.total_us += event.end_us - event.begin_us;
  }
  for (auto& [name, kind] : kinds) summary.kinds.push_back(std::move(kind));
}

std::string row_name(const TrackSummary& track, bool several) {
  return several ? cat(track.process, ", ", track.track) : track.track;
}

std::string gap_text(const TrackSummary::Gap& gap) {
  return cat(fixed(gap.length_us() / 1000, 3), " ms between ", gap.after, " and ", gap.before,
             gap.step < 0 ? "" : cat(" (step ", gap.step, ')'));
}

}  // namespace

std::vector<TrackSummary> summarize_trace(const TraceContent& content, size_t gaps) {
  double begin = std::numeric_limits<double>::infinity(), end = -begin;
  for (const TracedTrack& track : content.tracks)
    for (const TracedEvent& event : track.events) {
      begin = std::min(begin, event.begin_us);
      end = std::max(end, event.end_us);
    }
  std::vector<TrackSummary> summaries;
  for (const TracedTrack& track : content.tracks) {
    if (track.events.empty()) continue;
    TrackSummary summary;
    summary.process = track.process;
    summary.track = track.name;
    summary.events = static_cast<int64_t>(track.events.size());
    summary.window_us = end - begin;
    measure(summary, track.events);
    std::ranges::stable_sort(summary.gaps, std::ranges::greater{}, &TrackSummary::Gap::length_us);
    if (summary.gaps.size() > gaps) summary.gaps.resize(gaps);
    std::ranges::stable_sort(summary.kinds, std::ranges::greater{}, &TrackSummary::Kind::total_us);
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

std::string trace_text(const std::vector<TrackSummary>& tracks, int64_t lost) {
  if (tracks.empty()) return "no event was recorded\n";
  const bool several =
      std::ranges::any_of(tracks, [&](const TrackSummary& t) { return t.process != tracks.front().process; });
  std::vector<std::vector<std::string>> rows = {{"track", "events", "busy", "idle"}};
  std::vector<std::vector<std::string>> kinds = {{"track", "event", "count", "mean ms", "share"}};
  std::string gaps;
  for (const TrackSummary& track : tracks) {
    const std::string name = row_name(track, several);
    rows.push_back(
        {name, human_count(track.events), human_share(track.busy_share()), human_share(1 - track.busy_share())});
    for (const TrackSummary::Kind& kind : track.kinds)
      kinds.push_back({name, kind.name, human_count(kind.count),
                       fixed(kind.total_us / 1000 / static_cast<double>(kind.count), 4),
                       human_share(track.window_us > 0 ? kind.total_us / track.window_us : 0)});
    for (const TrackSummary::Gap& gap : track.gaps) gaps += cat("  ", name, ": ", gap_text(gap), '\n');
  }
  std::string text =
      text_table(rows) + '\n' + text_table(kinds) + "\nlongest gaps:\n" + (gaps.empty() ? "  none\n" : gaps);
  text += cat("\nof ", fixed(tracks.front().window_us / 1000, 3), " ms");
  if (lost > 0)
    text += cat("; ", human_count(lost), " events were lost because the trace was full: set metrics.trace_first_step "
                "and metrics.trace_last_step");
  return text + '\n';
}

}  // namespace troupe::ps
