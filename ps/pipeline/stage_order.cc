#include <troupe/ps/pipeline/stage_order.h>

#include <algorithm>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/pipeline/internal/walk.h>

namespace troupe::ps {
namespace {

/// How far ahead of its order a stage looks for something to do. It bounds the time of a decision.
constexpr size_t kWindow = 512;

std::vector<uint32_t> chunks_near(const Schedule& schedule, uint32_t stage) {
  std::vector<uint32_t> near;
  for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
    const auto here = [&](uint32_t c) { return c < schedule.chunks && schedule.stage_of[c] == stage; };
    if (here(chunk) || here(chunk + 1) || (chunk > 0 && here(chunk - 1))) near.push_back(chunk);
  }
  return near;
}

}  // namespace

void StageOrder::Held::count(const Action& action) {
  before_input += (action.kind == ActionKind::forward) - (action.kind == ActionKind::backward_input);
  before_weight += (action.kind == ActionKind::forward) - (action.kind == ActionKind::backward_weight);
}

StageOrder::Held StageOrder::Held::most(const Held& a, const Held& b) {
  return {std::max(a.before_input, b.before_input), std::max(a.before_weight, b.before_weight)};
}

StageOrder::StageOrder(const Schedule& schedule, uint32_t stage, StageRule rule)
    : schedule_(schedule),
      list_(schedule.actions[stage]),
      rule_(rule),
      ran_(list_.size(), false),
      near_(chunks_near(schedule, stage)),
      made_(3 * near_.size() * schedule.micro_batches, false) {
  Held held;
  for (const Action& action : list_) {
    held.count(action);
    limit_ = Held::most(limit_, held);
  }
}

size_t StageOrder::index(ActionKind kind, uint32_t chunk, uint32_t micro_batch) const {
  const auto near = std::lower_bound(near_.begin(), near_.end(), chunk);
  TROUPE_CHECK(near != near_.end() && *near == chunk && micro_batch < schedule_.micro_batches &&
                   kind <= ActionKind::backward_weight,
               "chunk ", chunk, ", micro-batch ", micro_batch, " is of no concern here");
  const auto row = static_cast<size_t>(kind) * near_.size() + static_cast<size_t>(near - near_.begin());
  return row * schedule_.micro_batches + micro_batch;
}

void StageOrder::arrived(ActionKind made, uint32_t chunk, uint32_t micro_batch) {
  const bool gradient = made != ActionKind::forward;
  if (gradient && schedule_.fused_backward) made_[index(ActionKind::backward_weight, chunk, micro_batch)] = true;
  made_[index(gradient ? ActionKind::backward_input : made, chunk, micro_batch)] = true;
}

bool StageOrder::ready(const Action& action) const {
  const auto needed = needed_by(schedule_, action);
  return !needed || made_[index(needed->kind, needed->chunk, action.micro_batch)];
}

/// Whether all of the chunk's gradients that stand before place `at` have been made.
bool StageOrder::gradients_made(size_t at) const {
  for (size_t k = first_; k < at; ++k)
    if (!ran_[k] && list_[k].chunk == list_[at].chunk && list_[k].kind == ActionKind::backward_weight) return false;
  return true;
}

std::optional<size_t> StageOrder::place_of_next() const {
  if (done()) return {};
  if (ready(list_[first_])) return first_;
  if (rule_ == StageRule::strict) return {};
  for (const ActionKind kind :
       {ActionKind::all_reduce, ActionKind::backward_input, ActionKind::forward, ActionKind::backward_weight})
    if (const auto place = first_ready(kind)) return place;
  return {};
}

std::optional<size_t> StageOrder::first_ready(ActionKind kind) const {
  // Were the rest run in order, this would be held at most up to here: running a forward early adds one to all of it.
  Held held = held_, most = held_;
  for (size_t k = first_; k < std::min(list_.size(), first_ + kWindow) && list_[k].kind != ActionKind::step; ++k) {
    if (ran_[k]) continue;
    const Action& action = list_[k];
    const bool forward = action.kind == ActionKind::forward;
    if (action.kind == kind) {
      const bool fits =
          !forward || (most.before_input < limit_.before_input && most.before_weight < limit_.before_weight);
      if (fits && ready(action) && (kind != ActionKind::all_reduce || gradients_made(k))) return k;
      if (forward) return {};
    }
    held.count(action);
    most = Held::most(most, held);
  }
  return {};
}

std::optional<Action> StageOrder::next() const {
  if (partner_) return partner_;
  const auto place = place_of_next();
  if (!place) return {};
  return list_[*place];
}

void StageOrder::ran(const Action& action) {
  size_t at = first_;
  while (at < list_.size() && (ran_[at] || list_[at] != action)) ++at;
  TROUPE_CHECK(at < list_.size(), action_text(schedule_, action), " is not left to run");
  ran_[at] = true;
  held_.count(action);
  if (action.kind <= ActionKind::backward_weight) made_[index(action.kind, action.chunk, action.micro_batch)] = true;
  partner_.reset();
  if (schedule_.fused_backward && action.kind == ActionKind::backward_input)
    partner_ = Action{ActionKind::backward_weight, action.micro_batch, action.chunk};
  while (first_ < list_.size() && ran_[first_]) ++first_;
}

}  // namespace troupe::ps
