#include <troupe/ps/metrics/trace_file.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/run_folder.h>

namespace troupe::ps {
namespace {

using Json = nlohmann::json;

std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

int64_t ns_of(TraceEvent::Time time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::string microseconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000), static_cast<long long>(ns % 1000));
  return text;
}

/// Where an event is drawn: ,"pid":0,"tid":2
struct Place {
  int64_t process = 0;
  size_t row = 0;
  std::string text() const { return cat(",\"pid\":", process, ",\"tid\":", row); }
};

void append_name(std::string& out, const char* what, const Place& place, const std::string& name) {
  out += cat("{\"ph\":\"M\",\"name\":\"", what, '"', place.text(), ",\"args\":{\"name\":", quoted(name), "}},\n");
}

void append_arrow(std::string& out, const char* kind, const Place& place, uint64_t id, int64_t at_ns) {
  char hex[24];
  std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(id));
  out += cat("{\"ph\":", kind, ",\"id\":\"", hex, '"', place.text(), ",\"ts\":", microseconds(at_ns),
             ",\"name\":\"flow\",\"cat\":\"flow\"},\n");
}

void append(std::string& out, const Place& place, const TraceEvent& event) {
  const int64_t begin = ns_of(event.begin), end = std::max(begin, ns_of(event.end));
  out += cat("{\"ph\":\"X\",\"name\":", quoted(event.name), place.text(), ",\"ts\":", microseconds(begin),
             ",\"dur\":", microseconds(end - begin), ",\"args\":{");
  const char* comma = "";
  for (const TraceEvent::Arg& arg : event.args) {
    if (!arg.name) break;
    out += cat(comma, quoted(arg.name), ':', arg.value);
    comma = ",";
  }
  out += "}},\n";
  // An arrow belongs to the event that its time lies in.
  if (event.flow_in) append_arrow(out, "\"f\",\"bp\":\"e\"", place, event.flow_in, begin);
  if (event.flow_out) append_arrow(out, "\"s\"", place, event.flow_out, std::max(begin, end - 1));
}

}  // namespace

Status write_trace(const std::string& path, const Trace& trace, const TraceProcess& process) {
  std::string out = "{\"displayTimeUnit\":\"ms\",\n\"traceEvents\":[\n";
  const std::vector<Trace::Row> rows = trace.rows();
  for (size_t row = 0; row < rows.size(); ++row) {
    const Place place{process.id, row + 1};
    append_name(out, "thread_name", place, rows[row].track);
    for (const TraceEvent& event : rows[row].events) append(out, place, event);
  }
  append_name(out, "process_name", {process.id, 0}, process.name);
  out.resize(out.size() - 2);  // no comma behind the last
  out += cat("\n],\n\"otherData\":{\"lost\":", trace.lost(), "}}\n");
  return replace_file(path, out);
}

namespace {

TraceContent content_of(const Json& file) {
  std::map<int64_t, std::string> processes;
  std::map<std::pair<int64_t, int64_t>, TracedTrack> tracks;
  for (const Json& event : file.at("traceEvents")) {
    const std::string kind = event.at("ph");
    const std::pair place{event.at("pid").get<int64_t>(), event.at("tid").get<int64_t>()};
    if (kind == "M") {
      const std::string name = event.at("args").at("name");
      if (event.at("name") == "process_name") processes[place.first] = name;
      else tracks[place].name = name;
    } else if (kind == "X") {
      const double begin = event.at("ts"), took = event.at("dur");
      const auto& args = event.at("args");
      const auto number = [&](const char* name) { return args.value(name, int64_t{-1}); };
      tracks[place].events.push_back(
          {event.at("name"), begin, begin + took, number("step"), number("micro-batch"), number("chunk")});
    }
  }
  TraceContent content;
  content.lost = file.at("otherData").at("lost");
  for (auto& [place, track] : tracks) {
    track.process = processes[place.first];
    std::ranges::stable_sort(track.events, {}, &TracedEvent::begin_us);
    content.tracks.push_back(std::move(track));
  }
  return content;
}

}  // namespace

Result<TraceContent> read_trace(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorKind::missing, cat(path, ": cannot be read"));
  try {
    return content_of(Json::parse(file));
  } catch (const Json::exception& error) {
    return fail(ErrorKind::corrupt, cat(path, ": is not a trace that troupe wrote: ", error.what()));
  }
}

Result<TraceContent> read_run_traces(const std::string& run) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("trace") && name.ends_with(".json")) paths.push_back(entry.path().string());
  }
  if (paths.empty())
    return fail(ErrorKind::missing, cat(run, ": holds no trace; train with --set metrics.trace=true to have one"));
  std::ranges::sort(paths);
  TraceContent all;
  for (const std::string& path : paths) {
    auto one = read_trace(path);
    if (!one) return tl::unexpected<Error>(one.error());
    all.lost += one->lost;
    std::ranges::move(one->tracks, std::back_inserter(all.tracks));
  }
  return all;
}

}  // namespace troupe::ps
