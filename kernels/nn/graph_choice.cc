#include <troupe/kernels/nn/graph_choice.h>

#include <algorithm>

#include <troupe/kernels/base/check.h>

namespace troupe::nn {

GraphChoice::Slot& GraphChoice::find(const Step& step, Choice& choice) {
  auto found = std::ranges::find(slots_, step, &Slot::step);
  if (found == slots_.end()) {
    if (slots_.size() < kMostSteps) {
      slots_.emplace_back();
      found = slots_.end() - 1;
    } else {
      found = std::ranges::min_element(slots_, {}, &Slot::used);
      choice.drops = true;
    }
    *found = {step};
  }
  choice.slot = static_cast<size_t>(found - slots_.begin());
  return *found;
}

GraphChoice::Choice GraphChoice::next(const Step& step) {
  Choice choice;
  if (!why_not_.empty()) return choice;
  Slot& slot = find(step, choice);
  slot.used = ++now_;
  if (slot.is_captured) {
    choice.action = Action::replay;
    ++replays_;
    return choice;
  }
  if (++slot.seen <= kWarmSteps) return choice;
  if (captures_ >= kMostCaptures && replays_ < captures_ * kReplaysWorth) {
    give_up("steps differ too often: " + std::to_string(captures_) + " captures were replayed " +
            std::to_string(replays_) + " times");
    return choice;
  }
  choice.action = Action::capture;
  ++captures_;
  return choice;
}

void GraphChoice::captured(size_t slot) {
  TROUPE_CHECK(slot < slots_.size(), "slot ", slot, " of ", slots_.size());
  slots_[slot].is_captured = true;
}

void GraphChoice::invalidate(size_t slot) {
  TROUPE_CHECK(slot < slots_.size(), "slot ", slot, " of ", slots_.size());
  slots_[slot].is_captured = false;
  slots_[slot].seen = 0;
}

void GraphChoice::give_up(std::string why) {
  if (why_not_.empty()) why_not_ = std::move(why);
}

}  // namespace troupe::nn
