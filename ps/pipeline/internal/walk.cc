#include <troupe/ps/pipeline/internal/walk.h>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {

std::optional<Needed> needed_by(const Schedule& s, const Action& action) {
  switch (action.kind) {
    case ActionKind::forward:
      if (action.chunk == 0) return {};
      return Needed{ActionKind::forward, action.chunk - 1};
    case ActionKind::backward_input:
      if (action.chunk + 1 == s.chunks) return Needed{ActionKind::forward, action.chunk};
      return Needed{s.fused_backward ? ActionKind::backward_weight : ActionKind::backward_input, action.chunk + 1};
    case ActionKind::backward_weight: return Needed{ActionKind::backward_input, action.chunk};
    default: return {};
  }
}

Walk::Walk(const Schedule& schedule)
    : schedule_(schedule), at_(schedule.stages, 0), done_(3 * size_t{schedule.chunks} * schedule.micro_batches, false) {
  for (uint32_t stage = schedule.stages; stage-- > 0;) {
    ready_.push_back(stage);
    left_ += schedule.actions[stage].size();
  }
}

size_t Walk::index(ActionKind kind, uint32_t chunk, uint32_t micro_batch) const {
  return (static_cast<size_t>(kind) * schedule_.chunks + chunk) * schedule_.micro_batches + micro_batch;
}

bool Walk::can_run(const Action& action) const {
  // A backward in the middle has its own forward before it: the chunk after it was fed by that.
  const auto needed = needed_by(schedule_, action);
  return !needed || done(needed->kind, needed->chunk, action.micro_batch);
}

void Walk::set_done(const Action& action) {
  --left_;
  if (action.kind > ActionKind::backward_weight) return;
  done_[index(action.kind, action.chunk, action.micro_batch)] = true;
  const bool forward = action.kind == ActionKind::forward;
  if (forward && action.chunk + 1 < schedule_.chunks) ready_.push_back(schedule_.stage_of[action.chunk + 1]);
  if (!forward && action.chunk > 0) ready_.push_back(schedule_.stage_of[action.chunk - 1]);
}

std::string Walk::circle() const {
  uint32_t stage = 0;
  while (at_[stage] == schedule_.actions[stage].size()) ++stage;
  // A stage that is stuck waits for one that is stuck: after as many steps as there are stages we are in the circle.
  const auto waits_for = [&](uint32_t of) {
    const Action& action = schedule_.actions[of][at_[of]];
    const Needed needed = *needed_by(schedule_, action);
    return Action{needed.kind, action.micro_batch, needed.chunk};
  };
  for (uint32_t k = 0; k < schedule_.stages; ++k) stage = schedule_.stage_of[waits_for(stage).chunk];
  std::string text;
  const uint32_t first = stage;
  do {
    const Action wanted = waits_for(stage);
    const uint32_t other = schedule_.stage_of[wanted.chunk];
    const auto here = action_text(schedule_, schedule_.actions[stage][at_[stage]]);
    const auto there = action_text(schedule_, schedule_.actions[other][at_[other]]);
    text += cat(text.empty() ? "" : "; ", "stage ", stage, " waits at ", here, " for ", action_text(schedule_, wanted),
                ", which stage ", other, " has only after ", there);
    stage = other;
  } while (stage != first);
  return text;
}

}  // namespace troupe::ps
