#include <troupe/ps/control/coordinator_core.h>

#include <algorithm>
#include <utility>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/param/reloaded_image.h>

// A server was lost that kept nothing but what is in the newest checkpoint: another goes on from there.
//
//   lost --ReloadRequest--> files executor --Reload--> its ranges are reported --Spawn with an image--> a node
//        --SpawnAck--> a server again
//
// Nothing is dealt in the meantime. The others, and the workers, do not go back: what had been dealt before the loss
// is lost for this server's slices, whether it had been pushed or not, and what is dealt after it counts. A step's
// verdict is then one of the other servers alone. Of a Reload the journal keeps no tensors, so that a coordinator that
// is started again asks once more; no checkpoint has come in between.
namespace troupe::ps {

void CoordinatorCore::reload(Effects& out, ServerId s) {
  Reloaded& r = reloaded_[s];
  r.waits = true;
  r.reported = false;
  snapshots_.erase(s);  // of what is lost
  out.reloads.push_back({server(s), membership_.layout});
}

void CoordinatorCore::reload_again(Effects& out) {
  for (const auto& [s, r] : reloaded_)
    if (r.waits) out.reloads.push_back({server(s), membership_.layout});
}

bool CoordinatorCore::lacks_image(const Spawn& order) const {
  if (order.who.role != Role::server || order.image) return false;
  const auto found = reloaded_.find(order.who.index);
  return found != reloaded_.end() && found->second.waits;
}

CoordinatorCore::Effects CoordinatorCore::reloaded(const Endpoint& who, const Result<Reload>& read) {
  Effects out;
  const auto order = spawning_.find(who);
  if (phase_ == Phase::ended || order == spawning_.end() || !lacks_image(order->second)) return out;
  if (!read) {
    fail_run(out, cat(who, " cannot go on from the newest checkpoint: ", read.error().message));
    return finish(std::move(out));
  }
  const ServerId s = who.index;
  if (!std::exchange(reloaded_.at(s).reported, true)) report_loss(out, s, *read);
  const bool whole = std::ranges::all_of(read->slices, [](const SliceState& slice) { return bool(slice.values); });
  if (!whole) return out;
  std::vector<Step> next_steps;
  for (const Slot& slot : slots_) next_steps.push_back(slot.next_step);
  order->second.image =
      std::make_shared<const ShardImage>(reloaded_image(membership_, s, read->slices, next_steps));
  if (const auto home = roster_.home(Role::server, s)) send(out, *home, order->second);
  return finish(std::move(out));
}

// What was lost in an earlier loss is not lost again. A checkpoint that came after it lacks it, too; one before it, to
// which a damaged one may send a server back, holds less than what was left.
void CoordinatorCore::report_loss(Effects& out, ServerId s, const Reload& read) {
  Reloaded& r = reloaded_.at(s);
  const auto known = pieces_at_.find(read.step);
  const Progress now{furthest(), pieces_dealt()}, then{read.step, known == pieces_at_.end() ? 0 : known->second};
  int64_t steps = now.step - then.step, pieces = now.pieces - then.pieces;
  for (const Gap& gap : r.gaps) {
    steps -= std::max<int64_t>(0, gap.to.step - std::max(gap.from.step, then.step));
    pieces -= std::max<int64_t>(0, gap.to.pieces - std::max(gap.from.pieces, then.pieces));
  }
  std::erase_if(r.gaps, [&](const Gap& gap) { return gap.to.step > then.step; });
  r.gaps.push_back({then, now});
  r.since = now.step;
  out.events.push_back(read.folder.empty()
                           ? cat("there is no checkpoint yet: server ", s, " goes on from the first parameters")
                           : cat("server ", s, " goes on from the checkpoint ", read.folder));
  for (const SliceState& state : read.slices) {
    TROUPE_CHECK(state.slice < layout().slices.size(), "slice ", state.slice, " of ", layout().slices.size());
    const Slice& slice = layout().slices[state.slice];
    const bool by_step = once_immediate_.count(slice.layer) == 0;
    const LostRange lost{s, options_.layers[slice.layer].name, slice.begin, slice.end, read.step, furthest(),
                         state.updates, by_step ? steps : pieces};
    out.events.push_back(describe(lost));
    result_.lost.push_back(lost);
  }
}

void CoordinatorCore::note_immediate(const std::vector<Policy>& policies) {
  for (LayerId layer = 0; layer < policies.size(); ++layer)
    if (policies[layer].immediate()) once_immediate_.insert(layer);
}

// Training work of all workers that may have been pushed. By their next steps, which do not go back: what a worker that
// was lost had under way may be in part on the servers.
int64_t CoordinatorCore::pieces_dealt() const {
  int64_t pieces = 0;
  for (const Slot& slot : slots_) pieces += slot.next_step;
  return pieces;
}

}  // namespace troupe::ps
