#include <algorithm>
#include <utility>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/control/worker_core.h>
#include <troupe/ps/param/buckets.h>
#include <troupe/ps/param/combined_push.h>

// Layers whose gradients the devices of a host add up (HostGroup, in the header).
namespace troupe::ps {

// Where a parcel is pushed by one worker for all, all of its layers are; where a layer is, all of its parcels.
void WorkerCore::choose_host_layers() {
  std::set<LayerId> layers;
  for (const LayerId layer : options_.host_layers)
    if (computes(layer) && policy(layer).mode == Mode::sync) layers.insert(layer);
  const auto whole = [&](ParcelId id) {
    return std::ranges::all_of(layout().parcels[id].slices,
                               [&](SliceId slice) { return layers.contains(layout().slices[slice].layer); });
  };
  while (std::erase_if(layers, [&](LayerId layer) { return !std::ranges::all_of(parcels_of_[layer], whole); }) > 0) {
  }
  host_layers_ = std::move(layers);
  std::vector<size_t> order;
  std::ranges::copy_if(gradient_order_, std::back_inserter(order),
                       [this](size_t layer) { return host_layers_.contains(static_cast<LayerId>(layer)); });
  host_buckets_ = make_buckets(layers_, order, options_.bucket_bytes);
  host_units_.clear();
  if (options_.broadcasts)
    host_units_ = make_buckets(layers_, {host_layers_.begin(), host_layers_.end()}, options_.bucket_bytes);
}

uint64_t WorkerCore::group_plan() const {
  uint64_t plan = 0;
  for (const auto* calls : {&host_buckets_, &host_units_})
    for (const auto& together : *calls)
      for (const LayerId layer : together)
        plan = (plan * 1099511628211u) ^ static_cast<uint64_t>(layers_[layer].count) ^ (together.size() << 48);
  return plan;
}

void WorkerCore::regroup(Effects& out) {
  if (options_.device.empty()) return;
  if (host_.phase == HostGroup::Phase::joining || host_.phase == HostGroup::Phase::joined)
    out.tasks.push_back(LeaveGroup{});
  keep_given(out);
  // Said again by everybody for themselves: a sum may cover who has been faster.
  for (const Parcel& parcel : layout().parcels) {
    ParcelState& state = parcels_[parcel.id];
    const auto covers = [&](const Push& push) { return !covered_by(push, parcel.slices.size()).empty(); };
    state.held = state.unacked && covers(*state.unacked);
    std::erase_if(state.queued, covers);
  }
  host_ = {};
  choose_host_layers();
  if (host_layers_.empty()) return;
  host_.phase = HostGroup::Phase::asked;
}

// Until it is answered.
void WorkerCore::say_of_group(Effects& out) const {
  const bool waits = host_.phase == HostGroup::Phase::joining && !host_.id.empty();
  if (host_.phase == HostGroup::Phase::asked || waits)
    to_coordinator(out, CollectiveId{options_.device, {}, host_.id, false});
  if (host_.phase == HostGroup::Phase::joined && !host_.told)
    to_coordinator(out, CollectiveId{options_.device, {}, {}, true});
}

void WorkerCore::on(Effects& out, const CollectiveId& answer) {
  if (answer.joined && host_.phase == HostGroup::Phase::joined) host_.told = true;
  if (host_.phase != HostGroup::Phase::asked) return;
  const auto self = std::ranges::find(answer.members, options_.self.index);
  if (self == answer.members.end() || !std::ranges::is_sorted(answer.members) ||
      answer.members.back() >= membership_.workers.size())
    return to_coordinator(out, Fault{cat(options_.self, ": a group of ", answer.members.size(),
                                         " workers of this host, of which it is none")});
  host_.members = answer.members;
  if (answer.members.size() == 1) {
    host_.phase = HostGroup::Phase::alone;
    return advance(out);
  }
  if (answer.id.empty()) {
    if (self == answer.members.begin() && !std::exchange(host_.making, true))
      out.tasks.push_back(MakeGroup{membership_.generation});
    return;
  }
  host_.phase = HostGroup::Phase::joining;
  const Step first = std::max(computed_ + 1, answer.first);
  JoinGroup join{membership_.generation, static_cast<int>(self - answer.members.begin()),
                 static_cast<int>(answer.members.size()), answer.id, first, group_plan(), host_buckets_,
                 host_units_};
  out.tasks.push_back(std::move(join));
}

WorkerCore::Effects WorkerCore::group_known(Generation generation, std::string id) {
  Effects out;
  if (generation != membership_.generation || !group_undecided()) return out;
  host_.id = std::move(id);
  say_of_group(out);
  return out;
}

WorkerCore::Effects WorkerCore::group_joined(Generation generation, Step from) {
  Effects out;
  if (generation != membership_.generation || host_.phase != HostGroup::Phase::joining) return out;
  host_.phase = HostGroup::Phase::joined;
  host_.from = from;
  say_of_group(out);
  advance(out);
  return out;
}

// A step is summed by all members or by none: whoever may have to take part waits until the first one is agreed on.
bool WorkerCore::group_undecided() const {
  return host_.phase == HostGroup::Phase::asked || host_.phase == HostGroup::Phase::joining;
}

// All weights of the step have come, so that what came before it is stored.
void WorkerCore::begin_host_step(const Work& work) {
  host_step_.reset();
  if (host_.phase == HostGroup::Phase::joined && work.step >= host_.from)
    host_step_ = HostStep{work, membership_.generation, host_.members, {}, 0, {}};
}

std::vector<size_t> WorkerCore::layers_on_host() const {
  return host_step_ ? std::vector<size_t>(host_layers_.begin(), host_layers_.end()) : std::vector<size_t>{};
}

std::vector<Bucket> WorkerCore::host_buckets(const Running& step) const {
  std::vector<Bucket> buckets;
  if (!host_step_) return buckets;
  const bool finite = step.non_finite.empty();
  const HostShare share{host_step_->generation, finite ? step.work.range.count : 0, finite};
  for (const std::vector<LayerId>& layers : host_buckets_) {
    Bucket& bucket = buckets.emplace_back();
    for (const LayerId layer : layers) bucket.push_back(Reduce{step.work.step, layer, {}, {}, share});
  }
  return buckets;
}

WorkerCore::Effects WorkerCore::summed_on_host(const HostSum& sum) {
  Effects out;
  if (!host_step_ || sum.step != host_step_->work.step) return out;
  // From a group that has ended since: it is answered again, by this worker's own gradients.
  if (!sum.alone && host_step_->generation != membership_.generation) return out;
  std::set<ParcelId> touched;
  for (const auto& [layer, gradient] : sum.layers) {
    host_step_->sums[layer] = {gradient, sum.samples, sum.finite, sum.alone};
    touched.insert(parcels_of_[layer].begin(), parcels_of_[layer].end());
  }
  for (const ParcelId parcel : touched) push_host_parcel(out, parcel);
  broadcast(out);
  return out;
}

void WorkerCore::push_host_parcel(Effects& out, ParcelId id) {
  ParcelState& state = parcels_[id];
  const Step step = host_step_->work.step;
  if (state.stored >= step) return;
  const HostStep::Sum* first = nullptr;
  for (const SliceId s : layout().parcels[id].slices) {
    const auto found = host_step_->sums.find(layout().slices[s].layer);
    if (found == host_step_->sums.end() || (first && found->second.alone != first->alone)) return;
    first = &found->second;
  }
  if (first->alone) return push_alone(out, id, host_push(id, *first));
  if (!is_root()) {
    const bool asked = state.pulling && state.pulling->step == step + 1;
    if (!options_.broadcasts && !asked) pull(out, id, step + 1);
    return;
  }
  Push push = host_push(id, *first);
  cover(push, std::span(host_step_->members).subspan(1));
  enqueue(out, id, std::move(push));
}

Push WorkerCore::host_push(ParcelId id, const HostStep::Sum& sum) {
  Push push;
  push.parcel = id;
  push.step = host_step_->work.step;
  push.schedule_step = host_step_->work.schedule_step;
  push.finite = sum.finite;
  push.samples = sum.finite ? sum.samples : 0;
  if (push.samples == 0) return push;
  for (const SliceId s : layout().parcels[id].slices) {
    const Slice& slice = layout().slices[s];
    push.gradients.push_back(host_step_->sums.at(slice.layer).gradient.view(slice.begin, {slice.count()}));
    if (const auto open = open_.find(push.step); open != open_.end())
      open->second.done.pushed_bytes += static_cast<int64_t>(push.gradients.back().bytes());
  }
  return push;
}

// The sum may be stored already, with this worker in it: then the server drops this one.
void WorkerCore::push_alone(Effects& out, ParcelId id, Push push) {
  ParcelState& state = parcels_[id];
  if (!state.unacked || state.unacked->step != push.step) return enqueue(out, id, std::move(push));
  push.sequence = state.unacked->sequence;
  state.held = false;
  send(out, server_of(id), push);
  state.unacked = std::move(push);
}

// ---- the weights that follow -------------------------------------------------------------------------------------

bool WorkerCore::comes_by_group(const Work& work, LayerId layer) const {
  return options_.broadcasts && work.kind == Work::Kind::train && on_host(layer) &&
         host_step_->generation == membership_.generation && work.step == host_step_->work.step + 1;
}

// None before the step's sums are done: nothing comes between them on any member.
void WorkerCore::broadcast(Effects& out) {
  if (!host_step_ || host_step_->generation != membership_.generation) return;
  if (host_step_->sums.size() < host_layers_.size()) return;
  const Step next = host_step_->work.step + 1;
  for (size_t& unit = host_step_->broadcast; unit < host_units_.size(); ++unit) {
    Broadcast task{next, membership_.generation, host_units_[unit], {}};
    if (is_root()) {
      auto parts = parts_of(task.layers, next);
      if (!parts) return;
      task.parts = std::move(*parts);
    }
    out.tasks.push_back(std::move(task));
  }
}

// Nothing where some have not come.
std::optional<std::vector<Broadcast::Part>> WorkerCore::parts_of(const std::vector<LayerId>& layers, Step step) const {
  std::vector<Broadcast::Part> parts;
  for (size_t i = 0; i < layers.size(); ++i)
    for (const ParcelId id : parcels_of_[layers[i]]) {
      const auto reply = parcels_[id].arrived.find(step);
      if (reply == parcels_[id].arrived.end()) return {};
      const std::vector<SliceId>& slices = layout().parcels[id].slices;
      for (size_t s = 0; s < slices.size(); ++s)
        if (const Slice& slice = layout().slices[slices[s]]; slice.layer == layers[i])
          parts.push_back({i, slice.begin, reply->second.values[s]});
    }
  return parts;
}

WorkerCore::Effects WorkerCore::weights_given(const HostWeights& weights) {
  Effects out;
  if (weights.generation != membership_.generation || !host_step_ || host_step_->generation != weights.generation ||
      host_step_->work.step + 1 != weights.step)
    return out;
  for (const auto& [layer, values] : weights.layers) {
    host_step_->next[layer] = values;
    for (const ParcelId parcel : parcels_of_[layer]) {
      confirm_stored(out, parcel, weights.step);
      auto& arrived = parcels_[parcel].arrived;  // what this worker pulled before there was a group
      arrived.erase(arrived.begin(), arrived.lower_bound(weights.step));
    }
  }
  advance(out);
  return out;
}

bool WorkerCore::take_given(LayerId layer) {
  const auto given = host_step_->next.find(layer);
  if (given == host_step_->next.end()) return false;
  Running& now = newest();
  now.weights[layer] = given->second;
  if (is_root()) open_.at(now.work.step).done.pulled_bytes += static_cast<int64_t>(given->second.bytes());
  return true;
}

// The group is no more, and the step that waits may be computed without one. The lowest has in host memory what it
// gave. What follows a push of this worker's own is pulled behind that, and what a step that has not begun needs when
// it begins.
void WorkerCore::keep_given(Effects& out) {
  if (!host_step_) return;
  const Step step = host_step_->work.step + 1;
  const std::map<LayerId, Tensor> given = std::exchange(host_step_->next, {});
  if (running_.empty() || newest().computes) return;
  Running& now = newest();
  if (now.work.kind != Work::Kind::train || now.work.step != step) return;
  Fetch fetch;
  for (const auto& [layer, values] : given) {
    if (!is_root()) {
      now.kept[layer] = {};
      SliceState& state = fetch.layers.emplace_back(layer, SliceState{}).second;
      state.values = values;
    }
    if (layer >= now.forwarded) continue;
    now.weights[layer] = {};
    now.again.insert(layer);
  }
  if (!fetch.layers.empty()) out.tasks.push_back(std::move(fetch));
  const auto is_missing = [&](SliceId slice) { return !now.kept.contains(layout().slices[slice].layer); };
  for (const Parcel& parcel : layout().parcels) {
    ParcelState& state = parcels_[parcel.id];
    if (on_host(parcel) && state.stored >= step - 1 && !state.pulling && state.arrived.count(step) == 0 &&
        std::ranges::any_of(parcel.slices, is_missing))
      state.pulling = Pull{parcel.id, step, next_ticket_++, {}};  // said with everything else that is not answered
  }
}

// Weights of the next step have come: whatever had this worker's gradients in it has been stored.
void WorkerCore::confirm_stored(Effects& out, ParcelId id, Step arrived) {
  if (!host_step_ || !on_host(layout().parcels[id])) return;
  ParcelState& state = parcels_[id];
  const Step step = host_step_->work.step;
  if (arrived <= step || state.stored >= step) return;
  const auto of_step = [step](const Push& push) { return push.step == step; };
  state.stored = step;
  state.held = false;
  if (state.unacked && of_step(*state.unacked)) state.unacked.reset();
  std::erase_if(state.queued, of_step);
  close(out, step);
}

}  // namespace troupe::ps
