#include <troupe/ps/control/stage_core.h>

#include <algorithm>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/data/dealer.h>

namespace troupe::ps {
namespace {

/// What a report of a stall ends with.
constexpr size_t kLastEvents = 12;
/// Tasks at the executor: one runs, one is there when it ends.
constexpr int64_t kAhead = 2;

bool is_work(const Action& action) {
  return action.kind == ActionKind::forward || action.kind == ActionKind::backward_input ||
         action.kind == ActionKind::backward_weight;
}

// An evaluation: every micro-batch through all chunks, one after the other.
Schedule forwards_only(const Schedule& schedule, uint32_t micro_batches) {
  Schedule out = schedule;
  out.micro_batches = micro_batches;
  for (auto& actions : out.actions) actions.clear();
  for (uint32_t micro = 0; micro < micro_batches; ++micro)
    for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk)
      out.actions[schedule.stage_of[chunk]].push_back({ActionKind::forward, micro, chunk});
  return out;
}

const char* name_of(Activation::Kind kind) {
  switch (kind) {
    case Activation::Kind::forward: return "outputs";
    case Activation::Kind::backward: return "gradients";
    case Activation::Kind::tied: return "gradient of a tied layer";
  }
  return "?";
}

}  // namespace

StageCore::StageCore(StageOptions options) : options_(std::move(options)) {
  const Schedule& schedule = *options_.plan.schedule;
  TROUPE_CHECK(options_.plan.chunks.size() == schedule.chunks, options_.plan.chunks.size(),
               " chunks of layers, the schedule has ", schedule.chunks);
  for (LayerId layer = 0; layer < options_.plan.chunks.back().last; ++layer) {
    std::set<uint32_t> holders;
    for (const uint32_t chunk : contributors(layer)) holders.insert(schedule.stage_of[chunk]);
    TROUPE_CHECK(holders.size() <= 2, "layer ", layer, " is tied over ", holders.size(), " stages");
  }
}

// Chunk by chunk, as the schedule completes them; then those that another stage owns.
void StageCore::set_order() {
  order_.clear();
  std::map<uint32_t, uint32_t> weighted;
  for (const Action& action : options_.plan.schedule->actions[stage()]) {
    if (action.kind != ActionKind::backward_weight || ++weighted[action.chunk] < options_.plan.schedule->micro_batches)
      continue;
    const LayerRange& own = options_.plan.chunks[action.chunk];
    for (LayerId layer = own.last; layer-- > own.first;) order_.push_back(layer);
  }
  for (const TiedLayer& tied : options_.plan.tied)
    if (!here(chunk_of(tied.layer)) && here(tied.reader) && on_both(tied.layer) &&
        std::ranges::find(order_, tied.layer) == order_.end())
      order_.push_back(tied.layer);
}

bool StageCore::is_complete(LayerId layer) const {
  const auto place = std::ranges::find(order_, layer) - order_.begin();
  return complete_.count(layer) > 0 || static_cast<size_t>(place) < left_;
}

void StageCore::set_membership(std::shared_ptr<const Membership> membership, Generation generation) {
  membership_ = std::move(membership);
  generation_ = generation;
}

Endpoint StageCore::holder(uint32_t chunk) const {
  const WorkerId worker = options_.self.index - stage() + options_.plan.schedule->stage_of[chunk];
  return {Role::worker, worker, membership_->workers[worker]};
}

uint32_t StageCore::chunk_of(LayerId layer) const {
  for (uint32_t chunk = 0; chunk < options_.plan.chunks.size(); ++chunk)
    if (layer >= options_.plan.chunks[chunk].first && layer < options_.plan.chunks[chunk].last) return chunk;
  TROUPE_CHECK(false, "layer ", layer, " is in no chunk");
  return 0;
}

// Chunks whose backward_weight adds to the layer's gradient.
std::vector<uint32_t> StageCore::contributors(LayerId layer) const {
  std::vector<uint32_t> chunks{chunk_of(layer)};
  for (const TiedLayer& tied : options_.plan.tied)
    if (tied.layer == layer && std::ranges::find(chunks, tied.reader) == chunks.end()) chunks.push_back(tied.reader);
  return chunks;
}

// The first chunk that reads a tied layer, on this stage or on another one.
std::optional<uint32_t> StageCore::reader(LayerId layer, bool on_this_stage) const {
  for (const TiedLayer& tied : options_.plan.tied)
    if (tied.layer == layer && here(tied.reader) == on_this_stage) return tied.reader;
  return {};
}

bool StageCore::on_both(LayerId layer) const { return membership_->layout->policies[layer].mode == Mode::all_reduce; }

// ---- work ------------------------------------------------------------------------------------------------------------

StageCore::Effects StageCore::begin(const Work& work) {
  TROUPE_CHECK(!work_ && membership_, options_.self, " begins step ", work.step, " within a step");
  Effects out;
  work_ = work;
  const bool train = work.kind == Work::Kind::train;
  key_step_ = train ? work.step : -(evaluations_done_ + 1);
  taken_.clear();
  weighted_.clear();
  sums_.clear();
  complete_.clear();
  at_executor_ = 0;
  plan();
  moved(cat("begins ", train ? "step " : "an evaluation, ", work.step));
  advance(out);
  finish(out);
  return out;
}

void StageCore::plan() {
  const Schedule& schedule = *options_.plan.schedule;
  if (work_->kind == Work::Kind::train) {
    split(schedule.micro_batches);
    runs_ = options_.plan.schedule;
    set_order();
    left_ = 0;
  } else {
    split((work_->range.count + options_.evaluation_batch - 1) / options_.evaluation_batch);
    runs_ = std::make_shared<const Schedule>(forwards_only(schedule, static_cast<uint32_t>(micro_.size())));
  }
  next_.emplace(*runs_, stage(), options_.strict ? StageRule::strict : StageRule::work_conserving);
  for (const auto& [key, activation] : arrived_) note_arrival(key);
}

// Contiguous, the larger parts first; some may be empty.
void StageCore::split(int64_t micro_batches) {
  micro_.clear();
  int64_t begin = work_->range.begin;
  for (const int64_t count : equal_split(work_->range.count, std::max<int64_t>(micro_batches, 1))) {
    micro_.push_back({work_->range.epoch, begin, count});
    begin += count;
  }
}

void StageCore::advance(Effects& out) {
  while (work_ && !failed_ && at_executor_ < kAhead) {
    const std::optional<Action> action = next_->next();
    if (!action) return;
    if (!is_work(*action)) {  // the worker's business: it begins with each gradient that is complete
      next_->ran(*action);
      continue;
    }
    // Made by another chunk of this stage, and still at the executor.
    if (const auto input = input_of(*action); input && arrived_.count(*input) == 0) return;
    submit(out, *action);
  }
}

// Where the action's input comes from another chunk.
std::optional<StageCore::Key> StageCore::input_of(const Action& action) const {
  if (action.kind == ActionKind::forward && action.chunk > 0)
    return Key{key_step_, Activation::Kind::forward, action.chunk, action.micro_batch};
  if (action.kind == ActionKind::backward_input && action.chunk < last_chunk())
    return Key{key_step_, Activation::Kind::backward, action.chunk, action.micro_batch};
  return {};
}

// Whether what the key names comes from another stage.
bool StageCore::neighbour(const Key& key) const {
  switch (key.kind) {
    case Activation::Kind::forward: return key.chunk > 0 && !here(key.chunk - 1);
    case Activation::Kind::backward: return key.chunk < last_chunk() && !here(key.chunk + 1);
    case Activation::Kind::tied: return true;
  }
  return false;
}

void StageCore::note_arrival(const Key& key) {
  if (key.step != key_step_ || key.kind == Activation::Kind::tied || key.micro_batch >= micro_.size()) return;
  if (key.kind == Activation::Kind::forward)
    next_->arrived(ActionKind::forward, key.chunk - 1, key.micro_batch);
  else
    next_->arrived(ActionKind::backward_input, key.chunk + 1, key.micro_batch);
}

void StageCore::submit(Effects& out, const Action& action) {
  StageTask task{action.kind, *work_, action.micro_batch, action.chunk, micro_[action.micro_batch], 0, {}, {}};
  task.first_sample = task.samples.begin - work_->range.begin;
  if (const auto key = input_of(action)) {
    Activation input = std::move(arrived_.extract(*key).mapped());
    if (input.samples != task.samples)
      return fault(out, cat("in step ", work_->step, " the ", name_of(key->kind), " of micro-batch ",
                            action.micro_batch, " for chunk ", action.chunk, " are of samples [", input.samples.begin,
                            ", +", input.samples.count, ") of epoch ", input.samples.epoch, ", expected [",
                            task.samples.begin, ", +", task.samples.count, ") of epoch ", task.samples.epoch));
    if (const auto& due = options_.activations; due && !input.tensors.empty() && input.tensors.front().dtype() != *due)
      return fault(out, cat("in step ", work_->step, " the ", name_of(key->kind), " of micro-batch ",
                            action.micro_batch, " for chunk ", action.chunk, " are ",
                            troupe::name_of(input.tensors.front().dtype()),
                            ", expected ", troupe::name_of(*due)));
    if (!input.tensors.empty()) task.input = std::move(input.tensors.front());
    taken_.insert(*key);
  }
  if (action.kind == ActionKind::backward_weight) task.gradients = complete_after(action);
  next_->ran(action);
  ++at_executor_;
  moved(action_text(*options_.plan.schedule, action));
  out.tasks.push_back(std::move(task));
}

// Layers to which no micro-batch of this stage will add any more.
std::vector<LayerId> StageCore::complete_after(const Action& action) {
  std::vector<LayerId> complete;
  if (++weighted_[action.chunk] < micro_.size()) return complete;
  const auto over = [&](LayerId layer) {
    return std::ranges::all_of(contributors(layer), [&](uint32_t chunk) {
      return !here(chunk) || (weighted_.count(chunk) > 0 && weighted_.at(chunk) == micro_.size());
    });
  };
  const LayerRange& own = options_.plan.chunks[action.chunk];
  for (LayerId layer = own.last; layer-- > own.first;)
    if (over(layer)) complete.push_back(layer);
  for (const TiedLayer& tied : options_.plan.tied)
    if (tied.reader == action.chunk && over(tied.layer) && std::ranges::find(complete, tied.layer) == complete.end())
      complete.push_back(tied.layer);
  return complete;
}

StageCore::Effects StageCore::computed(const StageTask& task, Tensor output) {
  Effects out;
  if (!work_ || task.work.number != work_->number) return out;
  --at_executor_;
  if (task.kind == ActionKind::forward && task.chunk < last_chunk())
    hand_on(out, Activation::Kind::forward, task.chunk + 1, task.micro_batch, std::move(output));
  if (task.kind == ActionKind::backward_input && task.chunk > 0)
    hand_on(out, Activation::Kind::backward, task.chunk - 1, task.micro_batch, std::move(output));
  advance(out);
  finish(out);
  return out;
}

void StageCore::hand_on(Effects& out, Activation::Kind kind, uint32_t chunk, uint32_t micro_batch, Tensor tensor) {
  Activation activation{kind, key_step_, micro_batch, chunk, {}, {}};
  activation.samples = kind == Activation::Kind::tied ? work_->range : micro_[micro_batch];
  activation.tensors.push_back(std::move(tensor));
  const Key key{key_step_, kind, chunk, micro_batch};
  if (here(chunk) && kind != Activation::Kind::tied) {
    arrived_[key] = std::move(activation);
    return;
  }
  Envelope envelope{options_.self, holder(chunk), generation_, std::move(activation)};
  unacknowledged_[key] = envelope;
  out.send.push_back(std::move(envelope));
}

StageCore::Effects StageCore::gradient(LayerId layer, Tensor sum) {
  Effects out;
  if (!work_) return out;
  const uint32_t owner = chunk_of(layer);
  const bool keeps = here(owner) || on_both(layer);
  const std::optional<uint32_t> elsewhere = !here(owner) ? owner : on_both(layer) ? reader(layer, false) : std::nullopt;
  if (elsewhere) hand_on(out, Activation::Kind::tied, *elsewhere, layer, sum);
  if (!keeps) return out;
  sums_[layer] = std::move(sum);
  add_tied(out, layer);
  finish(out);
  return out;
}

// The owner's sum first, then the other stage's: the same order in every run.
void StageCore::add_tied(Effects& out, LayerId layer) {
  const auto sum = sums_.find(layer);
  if (sum == sums_.end()) return;
  const uint32_t owner = chunk_of(layer);
  const bool owned = here(owner);
  const Key key{key_step_, Activation::Kind::tied, owned ? owner : reader(layer, true).value(), layer};
  Tensor other;
  const bool elsewhere = std::ranges::any_of(contributors(layer), [&](uint32_t chunk) { return !here(chunk); });
  if (elsewhere) {
    const auto found = arrived_.find(key);
    if (found == arrived_.end()) return;
    Activation part = std::move(found->second);
    arrived_.erase(found);
    if (part.samples != work_->range || part.tensors.empty() || part.tensors[0].dtype() != DType::f32 ||
        part.tensors[0].count() != sum->second.count())
      return fault(out, cat("the part of another stage in the gradient of layer ", layer, " does not fit it"));
    other = std::move(part.tensors[0]);
  }
  if (!owned) std::swap(sum->second, other);
  complete_[layer] = {layer, std::move(sum->second), std::move(other)};
  sums_.erase(sum);
  // Collectives among replicas are told apart by their order alone.
  for (; left_ < order_.size() && complete_.count(order_[left_]) > 0; ++left_)
    out.gradients.push_back(std::move(complete_.extract(order_[left_]).mapped()));
}

void StageCore::finish(Effects& out) {
  if (!work_ || !next_->done() || at_executor_ > 0) return;
  if (work_->kind == Work::Kind::train && left_ < order_.size()) return;
  // The parts of tied layers have left before this: the executor answers them in order.
  if (work_->kind == Work::Kind::train)
    steps_done_ = work_->step;
  else
    ++evaluations_done_;
  moved("is done");
  work_.reset();
  std::erase_if(arrived_, [&](const auto& entry) { return entry.first.step == key_step_; });
  out.done = true;
}

// ---- messages --------------------------------------------------------------------------------------------------------

StageCore::Effects StageCore::handle(const Envelope& envelope) {
  Effects out;
  if (const auto* ack = std::get_if<ActivationAck>(&envelope.body)) {
    unacknowledged_.erase({ack->step, ack->kind, ack->chunk, ack->micro_batch});
    return out;
  }
  const auto* activation = std::get_if<Activation>(&envelope.body);
  if (!activation) return out;
  const Key key{activation->step, activation->kind, activation->chunk, activation->micro_batch};
  const auto acknowledge = [&] {
    out.send.push_back(
        {options_.self, envelope.from, generation_, ActivationAck{key.kind, key.step, key.micro_batch, key.chunk}});
  };
  if (key.chunk > last_chunk() || !here(key.chunk) || !neighbour(key)) {
    fault(out, cat(describe(envelope.from), " sent ", name_of(key.kind), " for chunk ", key.chunk,
                   ", which takes nothing of that kind from another stage"));
    return out;
  }
  // What belongs to a step that is over has been taken; its acknowledgement was lost.
  const bool over = key.step < 0 ? -key.step <= evaluations_done_ : key.step <= steps_done_;
  acknowledge();
  if (over) return out;
  const bool current = work_ && key_step_ == key.step;
  if (current && key.kind != Activation::Kind::tied && key.micro_batch >= micro_.size()) {
    fault(out, cat(describe(envelope.from), " sent micro-batch ", key.micro_batch, " of ", micro_.size()));
    return out;
  }
  if (current && taken_.count(key) > 0) return out;                                               // a copy
  if (current && key.kind == Activation::Kind::tied && is_complete(key.micro_batch)) return out;  // a copy
  if (!arrived_.try_emplace(key, *activation).second) return out;
  moved(cat("received ", name_of(key.kind), " ", key.micro_batch, " for chunk ", key.chunk));
  if (!current) return out;
  if (key.kind == Activation::Kind::tied)
    add_tied(out, key.micro_batch);
  else
    note_arrival(key);
  advance(out);
  finish(out);
  return out;
}

StageCore::Effects StageCore::tick() const {
  Effects out;
  for (const auto& [key, envelope] : unacknowledged_) out.send.push_back(envelope);
  return out;
}

// ---- stalls ----------------------------------------------------------------------------------------------------------

void StageCore::moved(std::string what) {
  ++moves_;
  last_events_.push_back(std::move(what));
  if (last_events_.size() > kLastEvents) last_events_.pop_front();
}

std::string StageCore::describe(const Endpoint& worker) const {
  return cat(worker, " (stage ", worker.index % stages(), " of replica ", worker.index / stages(), ")");
}

std::string StageCore::waits_for() const {
  if (!work_ || at_executor_ > 0) return {};
  if (!next_->done()) {
    const Action& action = next_->waiting();
    const bool forward = action.kind == ActionKind::forward;
    const uint32_t from = forward ? action.chunk - 1 : action.chunk + 1;
    return cat(forward ? "outputs" : "gradients", " of micro-batch ", action.micro_batch, " from ",
               describe(holder(from)));
  }
  for (size_t i = left_; work_->kind == Work::Kind::train && i < order_.size(); ++i)
    for (const uint32_t chunk : contributors(order_[i]))
      if (!here(chunk) && complete_.count(order_[i]) == 0)
        return cat("its part in the gradient of layer ", order_[i], " from ", describe(holder(chunk)));
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
  fault(out, cat("in step ", work_->step, " it has waited ", (now_ms - moved_at_ms_) / 1000, " s for ", waits,
                 "; what it did last: ", trace));
  return out;
}

void StageCore::fault(Effects& out, std::string what) {
  failed_ = true;
  out.send.push_back(
      {options_.self, options_.coordinator, generation_, Fault{cat(describe(options_.self), ": ", what)}});
}

}  // namespace troupe::ps
