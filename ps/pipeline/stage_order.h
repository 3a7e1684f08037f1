#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include <troupe/ps/pipeline/schedule.h>

namespace troupe::ps {

enum class StageRule : uint8_t {
  strict,  ///< exactly the schedule's order
  work_conserving,  ///< where that has to wait: a gradient of an input, else the next forward, else one of a weight
};

/// Decides what a stage runs next, from what it has run and what has arrived. The same object serves a stage actor and
/// the simulator. Without threads or clocks.
///
/// Work-conserving keeps the forwards in their order (the first of them is one that others wait for), holds no more
/// activations than the schedule itself (chunks' forwards before their backward_input, and before their
/// backward_weight, are counted), never runs ahead of a step, and keeps backward_weight right behind backward_input
/// where the schedule does: so it can always go on in the schedule's order, and is as free of deadlock.
class StageOrder {
 public:
  /// A schedule that has passed `check`; it outlives this.
  StageOrder(const Schedule& schedule, uint32_t stage, StageRule rule);

  /// What `chunk`, a neighbour on another stage, made of `micro_batch` is here: its output (forward), or the gradient
  /// of its input (backward_input). May come in any order; again is no harm.
  void arrived(ActionKind made, uint32_t chunk, uint32_t micro_batch);

  /// What to run now: forward, backward_input, backward_weight, all_reduce or step. None: wait for an arrival.
  std::optional<Action> next() const;
  /// `next()` has been run.
  void ran(const Action& action);
  bool done() const { return first_ == list_.size(); }

  /// What the stage waits for, when `next` has nothing: the first action in order that has not run. For messages.
  const Action& waiting() const { return list_[first_]; }

 private:
  /// Forwards whose activations are held: until backward_input, and until backward_weight.
  struct Held {
    int64_t before_input = 0, before_weight = 0;
    void count(const Action& action);
    static Held most(const Held& a, const Held& b);
  };

  bool ready(const Action& action) const;
  bool gradients_made(size_t at) const;
  std::optional<size_t> place_of_next() const;
  std::optional<size_t> first_ready(ActionKind kind) const;
  size_t index(ActionKind kind, uint32_t chunk, uint32_t micro_batch) const;

  const Schedule& schedule_;
  const std::vector<Action>& list_;
  const StageRule rule_;
  size_t first_ = 0;            // of the list that has not run
  std::vector<bool> ran_;       // by place in the list
  std::vector<uint32_t> near_;  // this stage's chunks and their neighbours, ascending
  std::vector<bool> made_;      // forward, backward_input, backward_weight by near chunk and micro-batch
  Held held_, limit_;
  std::optional<Action> partner_;  // backward_weight that has to follow
};

}  // namespace troupe::ps
