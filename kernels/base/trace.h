#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Something that took from `begin` to `end` on a track; a moment where they are equal. `name` and the arguments'
/// names must outlive the trace: literals, or what Trace::keep returned.
struct TraceEvent {
  using Time = std::chrono::steady_clock::time_point;
  struct Arg {
    const char* name = nullptr;  ///< null: no argument
    int64_t value = 0;
  };

  const char* name = "";
  Time begin, end;
  /// Arrows between events: from the one that says `flow_out` to those that say the same number as `flow_in`, be it in
  /// another process. 0: none.
  uint64_t flow_in = 0, flow_out = 0;
  std::array<Arg, 3> args{};
};

class TraceBuffer;

struct TraceOptions {
  int64_t first_step = 0, last_step = INT64_MAX;  ///< of Track::wants
  size_t max_events = size_t{1} << 18;            ///< of all tracks together, about 110 bytes each
  std::function<TraceEvent::Time()> now = std::chrono::steady_clock::now;
};

/// A row of the picture: what one thread or one actor did. A value; copies write to the same row. Empty (tracing is
/// off), it costs a branch. One thread at a time records, without locks: an actor, whichever thread it runs on, or an
/// executor's tasks.
class Track {
 public:
  Track() = default;

  /// Whether events of this step are wanted.
  bool wants(int64_t step) const { return buffer_ && step >= first_ && step <= last_; }
  explicit operator bool() const { return buffer_ != nullptr; }
  /// The trace's clock; of no meaning on an empty track.
  TraceEvent::Time now() const;
  /// No effect on an empty track, and where the trace's memory is used up: the event is then counted as lost.
  void record(const TraceEvent& event) const;

 private:
  friend class Trace;
  std::shared_ptr<TraceBuffer> buffer_;
  int64_t first_ = 0, last_ = -1;
};

/// An event from here to the end of the scope, where the track wants its step. Its first argument is the step.
class Span {
 public:
  Span(const Track& track, const char* name, int64_t step, TraceEvent::Arg more = {}) {
    if (!track.wants(step)) return;
    track_ = &track;
    event.name = name;
    event.args = {{{"step", step}, more}};
    event.begin = track.now();
  }
  ~Span() {
    if (!track_) return;
    event.end = track_->now();
    track_->record(event);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  TraceEvent event;  ///< flows and a third argument may be put in

 private:
  const Track* track_ = nullptr;
};

/// What happens in a process and when, to be looked at afterwards. It is handed to whoever records, and lives as long
/// as one of them does. Thread-safe; `record` alone takes no lock.
class Trace {
 public:
  using Options = TraceOptions;
  struct Row {
    std::string track;
    std::vector<TraceEvent> events;  ///< in the order recorded
  };

  explicit Trace(Options options = Options());
  ~Trace();

  /// A row named `name`, shared with whoever asked for that name before (an actor that was started again).
  Track track(const std::string& name);
  /// A copy of `text` that lives as long as the trace.
  const char* keep(const std::string& text);

  /// All that was recorded so far, rows by name; recording may go on meanwhile.
  std::vector<Row> rows() const;
  int64_t lost() const;

 private:
  Options options_;
  mutable std::mutex mutex_;
  std::vector<std::pair<std::string, std::shared_ptr<TraceBuffer>>> buffers_;
  std::set<std::string> kept_;
  std::shared_ptr<std::atomic<int64_t>> room_;  ///< chunks that may still be made
};

}  // namespace troupe
