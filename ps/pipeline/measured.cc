#include <troupe/ps/pipeline/measured.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

std::optional<ActionKind> kind_named(const std::string& name) {
  if (name == "forward") return ActionKind::forward;
  if (name == "backward input") return ActionKind::backward_input;
  if (name == "backward weight") return ActionKind::backward_weight;
  return {};
}

const TracedTrack* find_track(const TraceContent& trace, uint32_t stage, uint32_t replica) {
  const auto found = std::ranges::find(trace.tracks, stage_track(stage, replica), &TracedTrack::name);
  return found == trace.tracks.end() ? nullptr : &*found;
}

size_t actions_of(const Schedule& schedule, uint32_t stage) {
  return static_cast<size_t>(std::ranges::count_if(
      schedule.actions[stage], [](const Action& action) { return action.kind <= ActionKind::backward_weight; }));
}

std::vector<TimedAction> spans_of(const TracedTrack& track, const Schedule& schedule, Step step) {
  std::vector<TimedAction> spans;
  for (const TracedEvent& event : track.events) {
    const auto kind = kind_named(event.name);
    const bool whole = event.micro_batch >= 0 && event.micro_batch < schedule.micro_batches && event.chunk >= 0 &&
                       event.chunk < schedule.chunks;
    if (event.step != step || !kind || !whole) continue;
    spans.push_back({{*kind, static_cast<uint32_t>(event.micro_batch), static_cast<uint32_t>(event.chunk)},
                     event.begin_us / 1e6,
                     event.end_us / 1e6});
  }
  return spans;
}

std::string row(const char* what, double measured, double predicted, const char* unit, double scale) {
  char text[160];
  std::snprintf(text, sizeof text, "%-28s %12.2f %12.2f  %s\n", what, measured * scale, predicted * scale, unit);
  return text;
}

}  // namespace

std::string stage_track(uint32_t stage, uint32_t replica) { return cat("stage ", stage, " of replica ", replica); }

Result<Timing> measured_timing(const TraceContent& trace, const Schedule& schedule, uint32_t replica, Step step) {
  Timing out;
  for (uint32_t stage = 0; stage < schedule.stages; ++stage) {
    const TracedTrack* track = find_track(trace, stage, replica);
    if (!track) return fail(ErrorKind::missing, cat("the trace has no row \"", stage_track(stage, replica), "\""));
    out.spans.push_back(spans_of(*track, schedule, step));
    // A replica that lost a stage runs a step again.
    if (out.spans.back().size() != actions_of(schedule, stage))
      return fail(ErrorKind::missing, cat("the trace holds ", out.spans.back().size(), " of the ",
                                          actions_of(schedule, stage), " actions of stage ", stage, " in step ", step));
  }
  double first = std::numeric_limits<double>::max(), last = 0;
  for (const auto& spans : out.spans) {
    first = std::min(first, spans.front().begin);
    last = std::max(last, spans.back().end);
  }
  for (auto& spans : out.spans) {
    out.cost = std::max(out.cost, spans.back().end - spans.front().begin);
    double busy = 0;
    for (TimedAction& span : spans) {
      span.begin -= first, span.end -= first;
      busy += span.end - span.begin;
    }
    out.busy.push_back(busy);
  }
  out.makespan = last - first;
  return out;
}

std::vector<ChunkTimes> measured_times(const Schedule& schedule, const Timing& measured) {
  std::vector<ChunkTimes> times(schedule.chunks, ChunkTimes{0, 0, 0});
  for (const auto& spans : measured.spans)
    for (const TimedAction& span : spans) {
      ChunkTimes& chunk = times[span.action.chunk];
      double& sum = span.action.kind == ActionKind::forward          ? chunk.forward
                    : span.action.kind == ActionKind::backward_input ? chunk.backward_input
                                                                     : chunk.backward_weight;
      sum += (span.end - span.begin) / schedule.micro_batches;
    }
  return times;
}

Step typical_step(const TraceContent& trace, const Schedule& schedule, uint32_t replica) {
  const TracedTrack* track = find_track(trace, 0, replica);
  if (!track) return -1;
  std::vector<Step> whole;
  for (const TracedEvent& event : track->events)
    if (event.step >= 0 && (whole.empty() || whole.back() != event.step) &&
        measured_timing(trace, schedule, replica, event.step))
      whole.push_back(event.step);
  return whole.empty() ? -1 : whole[whole.size() / 2];
}

std::string compare_text(const Schedule& schedule, const Timing& measured, const Timing& predicted) {
  std::string text = cat(schedule.name, ", ", schedule.stages, " stages, ", schedule.micro_batches, " micro-batches\n");
  char header[160];
  std::snprintf(header, sizeof header, "%-28s %12s %12s\n", "", "measured", "schedule");
  text += header;
  text += row("step time", measured.cost, predicted.cost, "ms", 1e3);
  text += row("computing, busiest stage", measured.ideal(), predicted.ideal(), "ms", 1e3);
  text += row("bubble of ideal time", measured.bubble_of_ideal(), predicted.bubble_of_ideal(), "%", 1e2);
  text += row("bubble of total time", measured.bubble_of_total(), predicted.bubble_of_total(), "%", 1e2);
  return text;
}

}  // namespace troupe::ps
