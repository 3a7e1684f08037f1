#include <troupe/ps/control/coordinator_core.h>

#include <algorithm>
#include <cmath>
#include <iterator>

// The group's verdict on a step: to skip it, or by what to scale it.
namespace troupe::ps {
namespace {

constexpr size_t kOpenSteps = 8;  // workers are at most a step apart where the group decides
constexpr size_t kKnownScales = 8;

std::string scale_history(const std::deque<std::pair<Step, double>>& scales) {
  std::string text;
  for (const auto& [step, scale] : scales) text += cat(text.empty() ? " (before: " : ", ", scale, " from step ", step);
  return text + ")";
}

}  // namespace

// Of a server that is not back nobody knows yet from which step on.
bool CoordinatorCore::takes_part(ServerId s, Step step) const {
  const auto back = reloaded_.find(s);
  return back == reloaded_.end() || back->second.waits || step >= back->second.since;
}

std::set<Endpoint> CoordinatorCore::voters(Step step) const {
  std::set<Endpoint> voters;
  for (const Parcel& parcel : layout().parcels)
    if (parcel.policy.aggregates() && takes_part(parcel.server, step)) voters.insert(server(parcel.server));
  for (LayerId layer = 0; layer < layout().layers.size(); ++layer)
    if (layout().policies[layer].mode == Mode::all_reduce) voters.insert(worker(layout().stage_of_layer(layer)));
  return voters;
}

void CoordinatorCore::on(Effects& out, const Envelope& envelope, const Partial& partial) {
  if (envelope.generation != membership_.generation) return;  // said again under this one, if it still matters
  if (auto known = verdicts_.find(partial.step); known != verdicts_.end()) {
    send(out, envelope.from, known->second);
    return;
  }
  if (!verdicts_.empty() && partial.step < verdicts_.begin()->first) return;  // everybody is long past it
  if (partial.step < 0) return;
  partials_[partial.step][envelope.from] = partial;
  decide(out, partial.step);
  forget_foreign_partials();
}

// Whatever a peer says: of more steps than can be open those go that are the farthest from what was dealt. Should one
// of them matter, it is said again.
void CoordinatorCore::forget_foreign_partials() {
  const Step furthest = this->furthest();
  while (partials_.size() > kOpenSteps) {
    const auto first = partials_.begin(), last = std::prev(partials_.end());
    partials_.erase(furthest - first->first > last->first - furthest ? first : last);
  }
}

// A server that was lost had perhaps been told alone that a gradient was not finite. Whoever has done the step has said
// so, too.
bool CoordinatorCore::done_by_all(Step step) const {
  for (WorkerId w = 0; w < slots_.size(); ++w) {
    const Slot& slot = slots_[w];
    const bool under_way = std::ranges::any_of(slot.outstanding, [&](const auto& piece) {
      return piece.second.kind == Work::Kind::train && piece.second.step == step;
    });
    const bool to_come = slot.next_step <= step || dealer_.repeated_steps(w).count(step) > 0;
    if (!slot.absent && (under_way || to_come)) return false;
  }
  return true;
}

void CoordinatorCore::heard_finite(Effects& out, Step step, bool finite) {
  if (!finite) non_finite_.insert(step);
  if (non_finite_.size() > kOpenSteps) non_finite_.erase(non_finite_.begin());
  if (partials_.count(step) > 0) decide(out, step);
}

void CoordinatorCore::decide(Effects& out, Step step) {
  const auto& partials = partials_[step];
  const std::set<Endpoint> voters = this->voters(step);
  if (voters.empty()) return void(partials_.erase(step));  // lost with every server: nobody waits for it
  const auto was_lost = [&](const auto& back) { return !takes_part(back.first, step); };
  if (std::ranges::any_of(reloaded_, was_lost) && !done_by_all(step)) return;
  double squares = 0;
  std::string culprit;
  bool finite = non_finite_.count(step) == 0;
  for (const Endpoint& voter : voters) {
    auto found = partials.find(voter);
    if (found == partials.end()) return;
    squares += found->second.sum_of_squares;
    finite = finite && found->second.finite;
    if (culprit.empty()) culprit = found->second.culprit;
  }
  finite = finite && std::isfinite(squares);
  if (!finite && !options_.skip_non_finite) {
    fail_run(out, cat("step ", step, ": the gradient holds NaN or Inf (", culprit, ")"));
    return;
  }
  if (!finite && options_.loss_scaling.dynamic && options_.stop_at_least_scale &&
      loss_scale_.value <= options_.loss_scaling.least)
    return fail_run(out, cat("step ", step, ": the gradient holds NaN or Inf (", culprit, ") at the least loss scale, ",
                             loss_scale_.value, scale_history(scales_), ": the model diverges, or 16 bits ",
                             "are too few for it; lower the learning rate, or use precision.activations = bf16"));
  Verdict verdict{step, !finite, 1};
  const double norm = std::sqrt(squares);
  if (finite && options_.clip_norm > 0 && norm > options_.clip_norm) verdict.scale = options_.clip_norm / norm;
  result_.skipped_steps += verdict.skip;
  verdicts_[step] = verdict;
  rescale(out, verdict, culprit);
  partials_.erase(step);
  while (verdicts_.size() > 4) verdicts_.erase(verdicts_.begin());
  for (const Endpoint& voter : voters)
    if (voter.role == Role::server) send(out, voter, verdict);
  if (layout().any(Mode::all_reduce))
    for (WorkerId w = 0; w < slots_.size(); ++w) send(out, worker(w), verdict);
}

// Whether all verdicts are there on which the loss scale of a step depends: nobody is dealt it before.
bool CoordinatorCore::knows_scale(Step step) const {
  if (!options_.loss_scaling.dynamic) return true;
  for (Step before = scale_step_; before < step; ++before)
    if (!voters(before).empty()) return false;
  return true;
}

void CoordinatorCore::rescale(Effects& out, const Verdict& verdict, const std::string& culprit) {
  if (verdict.step < scale_step_) return;
  scale_step_ = verdict.step + 1;
  const double before = loss_scale_.value;
  loss_scale_ = next_loss_scale(options_.loss_scaling, loss_scale_, verdict.skip);
  if (loss_scale_.value == before) return;
  scales_.emplace_back(scale_step_, loss_scale_.value);
  if (scales_.size() > kKnownScales) scales_.pop_front();
  const std::string why = verdict.skip ? cat("the gradient overflowed (", culprit, "), the step is skipped")
                                       : cat(options_.loss_scaling.interval, " steps in a row did not overflow");
  out.events.push_back(cat("step ", verdict.step, ": ", why, "; the loss scale goes from ", before, " to ",
                           loss_scale_.value));
}

}  // namespace troupe::ps
