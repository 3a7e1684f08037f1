#include <troupe/ps/control/stage_core.h>

#include <algorithm>

#include <troupe/kernels/base/check.h>

// A stage for which nothing moves says whom it waits for, and what it did last.
namespace troupe::ps {
namespace {

constexpr size_t kLastEvents = 12;

}  // namespace

void StageCore::moved(std::string what) {
  ++moves_;
  last_events_.push_back(std::move(what));
  if (last_events_.size() > kLastEvents) last_events_.pop_front();
}

std::string StageCore::describe(const Endpoint& worker) const {
  return cat(worker, " (stage ", worker.index % stages(), " of replica ", worker.index / stages(), ")");
}

std::string StageCore::waits_for() const {
  if (runs_.empty() || std::ranges::any_of(runs_, [](const Run& run) { return run.at_executor > 0; })) return {};
  const Run& run = runs_.front();  // the others wait for it, or for the same
  if (!run.order.done()) {
    if (const auto next = run.order.next(); next && !has_room(run, *next))
      return cat(describe(holder(next->chunk + 1)), " to take outputs of earlier micro-batches than ",
                 next->micro_batch);
    const Action& action = run.order.waiting();
    const bool forward = action.kind == ActionKind::forward;
    const uint32_t from = forward ? action.chunk - 1 : action.chunk + 1;
    return cat(forward ? "outputs" : "gradients", " of micro-batch ", action.micro_batch, " from ",
               describe(holder(from)));
  }
  for (size_t i = run.left; run.work.kind == Work::Kind::train && i < run.gradient_order.size(); ++i)
    for (const uint32_t chunk : contributors(run.gradient_order[i]))
      if (!here(chunk) && run.complete.count(run.gradient_order[i]) == 0)
        return cat("its part in the gradient of layer ", run.gradient_order[i], " from ", describe(holder(chunk)));
  return {};
}

StageCore::Effects StageCore::watch(int64_t now_ms) {
  Effects out;
  const std::string waits = waits_for();
  if (moves_ != watched_moves_ || waits.empty()) {
    watched_moves_ = moves_;
    moved_at_ms_ = now_ms;
    return out;
  }
  if (options_.stall_ms == 0 || failed_ || now_ms - moved_at_ms_ < options_.stall_ms) return out;
  std::string trace;
  for (const std::string& event : last_events_) trace += (trace.empty() ? "" : ", ") + event;
  fault(out, cat("in step ", runs_.front().work.step, " it has waited ", (now_ms - moved_at_ms_) / 1000, " s for ",
                 waits, "; what it did last: ", trace));
  return out;
}

void StageCore::fault(Effects& out, std::string what) {
  failed_ = true;
  out.send.push_back(
      {options_.self, options_.coordinator, generation_, Fault{cat(describe(options_.self), ": ", what)}});
}

}  // namespace troupe::ps
