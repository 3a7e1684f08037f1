#include <troupe/ps/control/coordinator_core.h>

#include <algorithm>

// A new process goes on as the run's coordinator, from the state in which its predecessor stopped.
//
// What its predecessor was told last it may not have answered, and what was said to it since is lost: all of it is said
// again, as after any loss. What is not: tensors (of snapshots, of checkpoints that were read), which were in its
// memory only, and the leases, which ran on while nobody could hear. Whoever held the place before may only be stopped
// (a paused machine) and go on one day: it is fenced by generations that it cannot reach.
namespace troupe::ps {
namespace {

// Generations a coordinator has for itself: its successor's begin at the next multiple.
constexpr Generation kReign = 1'000'000;

}  // namespace

int64_t CoordinatorCore::recoveries() const { return static_cast<int64_t>(membership_.generation / kReign); }

CoordinatorCore::Effects CoordinatorCore::recovered() {
  Effects out;
  roster_.excuse_silence();
  membership_.generation = (membership_.generation / kReign + 1) * kReign;
  unacknowledged_.clear();
  routes_changed_ = true;
  out.events.push_back(cat("the coordinator was started again, at step ", result_.steps));
  if (phase_ == Phase::ended) {
    out.finished = result_;
    return finish(std::move(out));
  }
  if (!begun_ && roster_.complete()) {
    begin(out);
    return finish(std::move(out));
  }
  reload_again(out);
  take_lost_checkpoint_again(out);
  if (awaits_snapshots()) {
    snapshots_.clear();
    ++round_;
  }
  if (!begun_ && roster_.complete()) begin(out);
  else if (begun_ && spawning_.empty()) invite(out);
  return finish(std::move(out));
}

// It was being written. At the end of a run servers still hold what was in it; else training has gone on, and the next
// is taken before the first step that nobody was dealt.
void CoordinatorCore::take_lost_checkpoint_again(Effects& out) {
  if (writing_ == 0) return;
  writing_ = 0;
  out.events.push_back("the checkpoint that was being written is lost; another is taken at the next step boundary");
  if (const auto end = std::ranges::find(duties_, Duty::await_writes); end != duties_.end()) {
    if (std::ranges::find(duties_, Duty::snapshot) == duties_.end()) duties_.insert(end, Duty::snapshot);
    return;
  }
  const Step furthest = this->furthest();
  for (WorkerId w = 0; w < slots_.size(); ++w) {
    if (slots_[w].absent || slots_[w].next_step != furthest) continue;
    if (const auto deal = upcoming(w)) next_checkpoint_ = std::min(next_checkpoint_, reached(*deal));
  }
}

}  // namespace troupe::ps
