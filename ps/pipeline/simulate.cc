#include <troupe/ps/pipeline/simulate.h>

#include <algorithm>
#include <queue>
#include <tuple>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/pipeline/internal/walk.h>

namespace troupe::ps {
namespace {

double duration(const ChunkTimes& times, ActionKind kind) {
  switch (kind) {
    case ActionKind::forward: return times.forward;
    case ActionKind::backward_input: return times.backward_input;
    case ActionKind::backward_weight: return times.backward_weight;
    case ActionKind::all_reduce: return times.all_reduce;
    case ActionKind::step: return times.step;
    default: return 0;
  }
}

/// Begins and ends of a run as they become known.
class Record {
 public:
  Record(const Schedule& schedule, const std::vector<ChunkTimes>& times, bool keep_spans)
      : schedule_(schedule),
        times_(times),
        keep_spans_(keep_spans),
        free_(schedule.stages, 0),
        network_free_(schedule.stages, 0),
        reduced_(schedule.chunks, 0),
        first_(schedule.stages, -1),
        last_(schedule.stages, 0) {
    timing_.busy.assign(schedule.stages, 0);
    timing_.spans.resize(keep_spans ? schedule.stages : 0);
  }

  /// Runs `action`, whose input is there at `ready`, as soon as its stage is free; returns its end.
  double run(uint32_t stage, const Action& action, double ready) {
    const bool network = action.kind == ActionKind::all_reduce;
    if (network) ready = std::max(ready, network_free_[stage]);
    if (action.kind == ActionKind::step) ready = std::max(ready, reduced_[action.chunk]);
    const double begin = std::max(ready, free_[stage]);
    const double end = begin + duration(times_[action.chunk], action.kind);
    if (network)
      network_free_[stage] = reduced_[action.chunk] = end;
    else
      free_[stage] = end, timing_.busy[stage] += end - begin;
    if (first_[stage] < 0) first_[stage] = begin;
    last_[stage] = std::max(last_[stage], end);
    if (keep_spans_) timing_.spans[stage].push_back({action, begin, end});
    return end;
  }

  Timing take() {
    double first = first_[0], last = 0;
    for (uint32_t stage = 0; stage < schedule_.stages; ++stage) {
      first = std::min(first, first_[stage]);
      last = std::max(last, last_[stage]);
      timing_.cost = std::max(timing_.cost, last_[stage] - first_[stage]);
    }
    timing_.makespan = last - first;
    return std::move(timing_);
  }

 private:
  const Schedule& schedule_;
  const std::vector<ChunkTimes>& times_;
  bool keep_spans_;
  Timing timing_;
  std::vector<double> free_, network_free_;  // by stage
  std::vector<double> reduced_;              // by chunk, when its last all-reduce ended
  std::vector<double> first_, last_;         // by stage
};

/// Between two neighbouring chunks.
double transfer_time(const Schedule& s, const std::vector<ChunkTimes>& times, uint32_t a, uint32_t b) {
  return s.stage_of[a] == s.stage_of[b] ? 0 : times[std::min(a, b)].transfer;
}

Timing run_strictly(const Schedule& s, const std::vector<ChunkTimes>& times, bool keep_spans) {
  Record record(s, times, keep_spans);
  std::vector<double> ends(3 * size_t{s.chunks} * s.micro_batches, 0);
  const auto end_of = [&](ActionKind kind, uint32_t chunk, uint32_t micro_batch) -> double& {
    return ends[(static_cast<size_t>(kind) * s.chunks + chunk) * s.micro_batches + micro_batch];
  };
  Walk walk(s);
  const bool complete = walk.go([&](uint32_t stage, const Action& action) {
    double ready = 0;
    if (const auto needed = needed_by(s, action))
      ready = end_of(needed->kind, needed->chunk, action.micro_batch) +
              transfer_time(s, times, needed->chunk, action.chunk);
    const double end = record.run(stage, action, ready);
    if (action.kind <= ActionKind::backward_weight) end_of(action.kind, action.chunk, action.micro_batch) = end;
  });
  TROUPE_CHECK(complete, "a schedule that was not checked: ", walk.circle());
  return record.take();
}

/// Stages that take what they can get, as events in the order of their time.
class Events {
 public:
  Events(const Schedule& s, const std::vector<ChunkTimes>& times, bool keep_spans)
      : s_(s), times_(times), record_(s, times, keep_spans), running_(s.stages) {
    for (uint32_t stage = 0; stage < s.stages; ++stage) {
      orders_.emplace_back(s, stage, StageRule::work_conserving);
      touched_.push_back(stage);
    }
  }

  Timing run() {
    start_touched(0);
    while (!queue_.empty()) {
      // All that happens at one time is known before anybody decides.
      const double now = queue_.top().time;
      for (; !queue_.empty() && queue_.top().time == now; queue_.pop()) happen(queue_.top());
      start_touched(now);
    }
    for (const StageOrder& order : orders_) TROUPE_CHECK(order.done(), "a schedule that was not checked");
    return record_.take();
  }

 private:
  struct Event {
    double time;
    uint64_t number;
    uint32_t stage;
    bool arrival;  ///< of what `action` made; else `action` ends here
    Action action;
    bool operator>(const Event& o) const { return std::tie(time, number) > std::tie(o.time, o.number); }
  };

  void happen(const Event& event) {
    touched_.push_back(event.stage);
    if (event.arrival)
      return orders_[event.stage].arrived(event.action.kind, event.action.chunk, event.action.micro_batch);
    running_[event.stage] = false;
    orders_[event.stage].ran(event.action);
    send(event);
  }

  void send(const Event& event) {
    const ActionKind gradient = s_.fused_backward ? ActionKind::backward_weight : ActionKind::backward_input;
    const uint32_t chunk = event.action.chunk;
    uint32_t to = chunk;
    if (event.action.kind == ActionKind::forward && chunk + 1 < s_.chunks) to = chunk + 1;
    if (event.action.kind == gradient && chunk > 0) to = chunk - 1;
    if (s_.stage_of[to] == event.stage) return;
    queue_.push({event.time + transfer_time(s_, times_, chunk, to), number_++, s_.stage_of[to], true, event.action});
  }

  void start_touched(double now) {
    for (const uint32_t stage : touched_) start(stage, now);
    touched_.clear();
  }

  void start(uint32_t stage, double now) {
    while (!running_[stage]) {
      const auto action = orders_[stage].next();
      if (!action) return;
      const double end = record_.run(stage, *action, now);
      // An all-reduce runs beside the stage; the record has a step wait for it.
      if (action->kind == ActionKind::all_reduce) {
        orders_[stage].ran(*action);
        continue;
      }
      running_[stage] = true;
      queue_.push({end, number_++, stage, false, *action});
    }
  }

  const Schedule& s_;
  const std::vector<ChunkTimes>& times_;
  Record record_;
  std::vector<StageOrder> orders_;
  std::vector<bool> running_;
  std::vector<uint32_t> touched_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  uint64_t number_ = 0;
};

}  // namespace

double Timing::ideal() const { return *std::max_element(busy.begin(), busy.end()); }

Timing simulate(const Schedule& schedule, const std::vector<ChunkTimes>& times, const SimulateOptions& options) {
  TROUPE_CHECK(times.size() == schedule.chunks, times.size(), " times for ", schedule.chunks, " chunks");
  if (options.rule == StageRule::strict) return run_strictly(schedule, times, options.keep_spans);
  return Events(schedule, times, options.keep_spans).run();
}

Timing simulate(const Schedule& schedule, const ChunkTimes& times, const SimulateOptions& options) {
  return simulate(schedule, std::vector<ChunkTimes>(schedule.chunks, times), options);
}

}  // namespace troupe::ps
