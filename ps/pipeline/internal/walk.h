#pragma once
#include <optional>
#include <string>
#include <vector>

#include <troupe/ps/pipeline/schedule.h>

namespace troupe::ps {

/// What one action of a schedule has to wait for on another stage or chunk.
struct Needed {
  ActionKind kind;  ///< of the same micro-batch
  uint32_t chunk;
};

/// The action of a neighbouring chunk (or, for the last chunk's backward, of its own) without which `action` cannot
/// run. None for the first forward, all_reduce and step.
std::optional<Needed> needed_by(const Schedule& schedule, const Action& action);

/// Takes the stages through their lists, each action after what it needs. Knows nothing of time.
class Walk {
 public:
  /// The schedule is complete, as check_complete finds it, and outlives this.
  explicit Walk(const Schedule& schedule);

  /// Calls run(stage, action) for every action that can run, in an order that respects what each needs. Where it
  /// returns false, stages are stuck.
  template <class Run>
  bool go(Run&& run) {
    while (!ready_.empty()) {
      const uint32_t stage = ready_.back();
      ready_.pop_back();
      const auto& list = schedule_.actions[stage];
      for (; at_[stage] < list.size() && can_run(list[at_[stage]]); ++at_[stage]) {
        const Action& action = list[at_[stage]];
        run(stage, action);
        set_done(action);
      }
    }
    return left_ == 0;
  }

  /// Who waits for whom, in a circle, after `go` returned false.
  std::string circle() const;

 private:
  bool can_run(const Action& action) const;
  bool done(ActionKind kind, uint32_t chunk, uint32_t micro_batch) const {
    return done_[index(kind, chunk, micro_batch)];
  }
  void set_done(const Action& action);
  size_t index(ActionKind kind, uint32_t chunk, uint32_t micro_batch) const;

  const Schedule& schedule_;
  std::vector<size_t> at_;       // by stage
  std::vector<uint32_t> ready_;  // stages that may have something to run
  std::vector<bool> done_;       // forward, backward_input, backward_weight by chunk and micro-batch
  size_t left_ = 0;              // actions
};

}  // namespace troupe::ps
