#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/base/trace.h>

namespace troupe::ps {

/// A trace on disk, in the Trace Event Format that chrome://tracing and ui.perfetto.dev open: an object with
/// "traceEvents", one event a line:
///
///     {"ph":"X","name":"backward","pid":0,"tid":2,"ts":12.500,"dur":830.125,"args":{"step":3}}   took dur from ts
///     {"ph":"s","id":"0x1f","pid":0,"tid":2,"ts":842.624,"name":"flow","cat":"flow"}              an arrow leaves it
///     {"ph":"f","bp":"e","id":"0x1f","pid":0,"tid":5,"ts":850.000,"name":"flow","cat":"flow"}     and comes to another
///     {"ph":"M","name":"thread_name","pid":0,"tid":2,"args":{"name":"worker 0 compute"}}          a row's name
///
/// Times are microseconds of the steady clock, which all processes of a host share. "otherData" says how many events
/// were lost.
struct TraceProcess {
  int64_t id = 0;
  std::string name;  ///< "node 0"
};

/// Writes the file wholly or not at all. Recording may go on meanwhile.
Status write_trace(const std::string& path, const Trace& trace, const TraceProcess& process);

/// What a file says of its events, for summaries.
struct TracedEvent {
  std::string name;
  double begin_us = 0, end_us = 0;
  int64_t step = -1;  ///< of the argument "step"; -1: none
  int64_t micro_batch = -1, chunk = -1;  ///< of arguments of these names, of a stage's actions
};
struct TracedTrack {
  std::string process, name;
  std::vector<TracedEvent> events;  ///< by begin
};
struct TraceContent {
  std::vector<TracedTrack> tracks;  ///< as the file has them
  int64_t lost = 0;
};

/// ErrorKind::missing, or corrupt where it is not such a file.
Result<TraceContent> read_trace(const std::string& path);

/// All files `write_trace` left in a run's folder; ErrorKind::missing where there is none.
Result<TraceContent> read_run_traces(const std::string& run);

}  // namespace troupe::ps
