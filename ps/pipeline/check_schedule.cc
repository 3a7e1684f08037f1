#include <troupe/ps/pipeline/check_schedule.h>

#include <algorithm>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/pipeline/internal/walk.h>

namespace troupe::ps {
namespace {

tl::unexpected<Error> wrong(const Schedule& s, const std::string& what) {
  return fail(ErrorKind::invalid, cat("schedule '", s.name, "': ", what));
}

Status check_placement(const Schedule& s) {
  if (s.stages == 0 || s.micro_batches == 0 || s.chunks < s.stages || s.stage_of.size() != s.chunks ||
      s.actions.size() != s.stages)
    return wrong(s, cat(s.stages, " stages (", s.actions.size(), " lists), ", s.chunks, " chunks (", s.stage_of.size(),
                        " placed), ", s.micro_batches, " micro-batches do not fit each other"));
  std::vector<bool> used(s.stages, false);
  for (uint32_t chunk = 0; chunk < s.chunks; ++chunk) {
    if (s.stage_of[chunk] >= s.stages)
      return wrong(s, cat("chunk ", chunk, " is on stage ", s.stage_of[chunk], " of ", s.stages));
    used[s.stage_of[chunk]] = true;
  }
  for (uint32_t stage = 0; stage < s.stages; ++stage)
    if (!used[stage]) return wrong(s, cat("stage ", stage, " has no chunk"));
  return {};
}

Status check_place(const Schedule& s, uint32_t stage, const Action& action) {
  if (action.chunk >= s.chunks || action.micro_batch >= s.micro_batches)
    return wrong(s, cat("stage ", stage, " runs ", action_text(s, action), " of chunk ", action.chunk,
                        ", but there are ", s.micro_batches, " micro-batches and ", s.chunks, " chunks, both from 0"));
  if (s.stage_of[action.chunk] != stage)
    return wrong(s, cat("stage ", stage, " runs ", action_text(s, action), " of chunk ", action.chunk,
                        ", which is on stage ", s.stage_of[action.chunk]));
  if (action.kind > ActionKind::backward_weight && action.kind < ActionKind::all_reduce)
    return wrong(s,
                 cat("stage ", stage, " lists ", action_text(s, action), "; transfers follow from the other actions"));
  return {};
}

/// How often each of forward, backward_input, backward_weight is there, by chunk and micro-batch.
class Counts {
 public:
  explicit Counts(const Schedule& s) : s_(s), counts_(3 * size_t{s.chunks} * s.micro_batches, 0) {}

  uint8_t& of(ActionKind kind, uint32_t chunk, uint32_t micro_batch) {
    return counts_[(static_cast<size_t>(kind) * s_.chunks + chunk) * s_.micro_batches + micro_batch];
  }

 private:
  const Schedule& s_;
  std::vector<uint8_t> counts_;
};

const char* words(ActionKind kind) {
  if (kind == ActionKind::forward) return "forward pass";
  return kind == ActionKind::backward_input ? "backward pass (input gradient)" : "backward pass (weight gradient)";
}

Status check_counts(const Schedule& s, Counts& counts) {
  for (const ActionKind kind : {ActionKind::forward, ActionKind::backward_input, ActionKind::backward_weight})
    for (uint32_t chunk = 0; chunk < s.chunks; ++chunk)
      for (uint32_t j = 0; j < s.micro_batches; ++j)
        if (counts.of(kind, chunk, j) == 0)
          return wrong(s, cat("stage ", s.stage_of[chunk], " never runs ", action_text(s, {kind, j, chunk}), ", the ",
                              words(kind), " of micro-batch ", j, " on chunk ", chunk));
  return {};
}

/// Each step has what it is the step of behind it, and nothing is left without a step.
Status check_steps(const Schedule& s) {
  for (uint32_t chunk = 0; chunk < s.chunks; ++chunk) {
    uint32_t made = 0, summed = 0, stepped = 0;
    for (const Action& action : s.actions[s.stage_of[chunk]]) {
      if (action.chunk != chunk) continue;
      made += action.kind == ActionKind::backward_weight;
      if (action.kind == ActionKind::all_reduce) summed = made;
      if (action.kind != ActionKind::step) continue;
      if (action.micro_batch + 1 != made || summed != made)
        return wrong(s, cat("chunk ", chunk, " steps with ", made, " micro-batches' gradients made and ", summed,
                            " reduced, where ", action.micro_batch + 1, " should be"));
      stepped = made;
    }
    if (stepped != s.micro_batches)
      return wrong(s, cat("chunk ", chunk, " makes ", s.micro_batches, " micro-batches' gradients, but its steps take ",
                          stepped));
  }
  return {};
}

/// Before memory is taken for all actions that there should be.
Status check_number(const Schedule& s) {
  uint64_t actions = 0;
  for (const auto& list : s.actions) actions += list.size();
  const uint64_t needed = 3 * uint64_t{s.chunks} * s.micro_batches;
  if (needed <= 4 * actions) return {};
  return wrong(s, cat(s.micro_batches, " micro-batches on ", s.chunks, " chunks need ", needed, " actions, there are ",
                      actions, ": most are missing, or a number is mistyped"));
}

}  // namespace

Status check_complete(const Schedule& s) {
  TROUPE_TRY(check_placement(s));
  TROUPE_TRY(check_number(s));
  Counts counts(s);
  for (uint32_t stage = 0; stage < s.stages; ++stage)
    for (const Action& action : s.actions[stage]) {
      TROUPE_TRY(check_place(s, stage, action));
      if (action.kind > ActionKind::backward_weight) continue;
      if (counts.of(action.kind, action.chunk, action.micro_batch)++ > 0)
        return wrong(s, cat("stage ", stage, " runs ", action_text(s, action), " twice"));
    }
  TROUPE_TRY(check_counts(s, counts));
  return check_steps(s);
}

Status check_order(const Schedule& s) {
  Walk walk(s);
  if (walk.go([](uint32_t, const Action&) {})) return {};
  return wrong(s, "would wait for ever: " + walk.circle());
}

std::vector<double> peak_activations(const Schedule& s, std::span<const ActivationSizes> sizes) {
  TROUPE_CHECK(sizes.size() == s.chunks, sizes.size(), " sizes for ", s.chunks, " chunks");
  std::vector<double> peaks;
  for (const auto& list : s.actions) {
    double held = 0, most = 0;
    for (const Action& action : list) {
      const ActivationSizes& size = sizes[action.chunk];
      if (action.kind == ActionKind::forward) held += size.after_forward;
      if (action.kind == ActionKind::backward_input) held += size.after_backward_input - size.after_forward;
      if (action.kind == ActionKind::backward_weight) held -= size.after_backward_input;
      most = std::max(most, held);
    }
    peaks.push_back(most);
  }
  return peaks;
}

Status check(const Schedule& s, std::span<const ActivationSizes> sizes, double limit) {
  TROUPE_TRY(check(s));
  const auto peaks = peak_activations(s, sizes);
  for (uint32_t stage = 0; stage < s.stages; ++stage)
    if (peaks[stage] > limit)
      return wrong(s, cat("stage ", stage, " holds activations of up to ", peaks[stage], ", the limit is ", limit,
                          "; use smaller micro-batches, recomputation, or a schedule that holds fewer"));
  return {};
}

Status check(const Schedule& s) {
  TROUPE_TRY(check_complete(s));
  return check_order(s);
}

}  // namespace troupe::ps
