#include <troupe/ps/control/stage_core.h>

#include <algorithm>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/data/dealer.h>

namespace troupe::ps {
namespace {

/// Tasks at the executor: one runs, one is there when it ends.
constexpr int64_t kAhead = 2;

bool is_work(const Action& action) {
  return action.kind == ActionKind::forward || action.kind == ActionKind::backward_input ||
         action.kind == ActionKind::backward_weight;
}

// Micro-batches of all the stage's chunks that have gone forward and have no gradient of their input yet, at most.
int64_t most_without_gradient(const Schedule& schedule, uint32_t stage) {
  int64_t held = 0, most = 0;
  for (const Action& action : schedule.actions[stage]) {
    held += (action.kind == ActionKind::forward) - (action.kind == ActionKind::backward_input);
    most = std::max(most, held);
  }
  return most;
}

// Contiguous, the larger parts first; some may be empty.
std::vector<SampleRange> split(const SampleRange& all, int64_t micro_batches) {
  std::vector<SampleRange> parts;
  int64_t begin = all.begin;
  for (const int64_t count : equal_split(all.count, std::max<int64_t>(micro_batches, 1))) {
    parts.push_back({all.epoch, begin, count});
    begin += count;
  }
  return parts;
}

// An evaluation: as many micro-batches as there are chunks, but no more than may wait between two of them, one after
// the other, through each chunk in turn. A stage with several chunks is busy with one while what it made for the next
// is on its way through the others.
Schedule forwards_only(const Schedule& schedule, uint32_t micro_batches, int64_t most) {
  Schedule out = schedule;
  out.micro_batches = micro_batches;
  for (auto& actions : out.actions) actions.clear();
  const auto together = static_cast<uint32_t>(std::min<int64_t>(schedule.chunks, most));
  for (uint32_t first = 0; first < micro_batches; first += together)
    for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk)
      for (uint32_t micro = first; micro < std::min(first + together, micro_batches); ++micro)
        out.actions[schedule.stage_of[chunk]].push_back({ActionKind::forward, micro, chunk});
  return out;
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
  const auto steps = std::ranges::count(schedule.actions[stage()], ActionKind::step, &Action::kind);
  const auto chunks = std::ranges::count(schedule.stage_of, stage());
  TROUPE_CHECK(steps == chunks, "a piece of work is one update, the schedule has ", steps, " of ", chunks, " chunks");
  for (uint32_t chunk = 1; chunk < schedule.chunks; ++chunk) {
    const uint32_t before = schedule.stage_of[chunk - 1];
    if (here(chunk) && before != stage())
      most_waiting_[chunk] = asynchronous() ? int64_t{stages()} - before : most_without_gradient(schedule, before);
  }
}

// Chunk by chunk, as the schedule completes them; then those that another stage owns.
std::vector<LayerId> StageCore::gradient_order() const {
  std::vector<LayerId> order;
  std::map<uint32_t, uint32_t> weighted;
  for (const Action& action : options_.plan.schedule->actions[stage()]) {
    if (action.kind != ActionKind::backward_weight || ++weighted[action.chunk] < options_.plan.schedule->micro_batches)
      continue;
    const LayerRange& own = options_.plan.chunks[action.chunk];
    for (LayerId layer = own.last; layer-- > own.first;) order.push_back(layer);
  }
  for (const TiedLayer& tied : options_.plan.tied)
    if (!here(chunk_of(tied.layer)) && here(tied.reader) && on_both(tied.layer) &&
        std::ranges::find(order, tied.layer) == order.end())
      order.push_back(tied.layer);
  return order;
}

bool StageCore::is_complete(const Run& run, LayerId layer) const {
  const auto place = std::ranges::find(run.gradient_order, layer) - run.gradient_order.begin();
  return run.complete.count(layer) > 0 || static_cast<size_t>(place) < run.left;
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

StageCore::Effects StageCore::begin(const Work& work) {
  const bool train = work.kind == Work::Kind::train;
  const bool behind = train && asynchronous() && !runs_.empty() && runs_.back().work.kind == Work::Kind::train &&
                      runs_.back().work.step < work.step;
  TROUPE_CHECK((runs_.empty() || behind) && membership_, options_.self, " begins step ", work.step, " within a step");
  Effects out;
  Run& run = runs_.emplace_back(plan(work));
  for (const auto& [key, activation] : arrived_) note_arrival(run, key);
  moved(cat("begins ", train ? "step " : "an evaluation, ", work.step));
  advance(out);
  finish(out);
  return out;
}

StageCore::Run StageCore::plan(const Work& work) const {
  const Schedule& schedule = *options_.plan.schedule;
  const bool train = work.kind == Work::Kind::train;
  const int64_t tests = (work.range.count + options_.evaluation_batch - 1) / options_.evaluation_batch;
  auto micro = split(work.range, train ? schedule.micro_batches : tests);
  auto list =
      train ? options_.plan.schedule
            : std::make_shared<const Schedule>(forwards_only(schedule, static_cast<uint32_t>(micro.size()), kTests));
  StageOrder order(*list, stage(), options_.strict ? StageRule::strict : StageRule::work_conserving);
  const auto forwards = std::ranges::count(list->actions[stage()], ActionKind::forward, &Action::kind);
  return {.work = work,
          .key_step = train ? work.step : -(evaluations_done_ + 1),
          .micro = std::move(micro),
          .list = std::move(list),
          .order = std::move(order),
          .forwards_left = forwards,
          .gradient_order = train ? gradient_order() : std::vector<LayerId>{}};
}

StageCore::Run* StageCore::run_of(Step key_step) {
  const auto found = std::ranges::find(runs_, key_step, &Run::key_step);
  return found == runs_.end() ? nullptr : &*found;
}

StageCore::Run* StageCore::run_of_work(uint64_t number) {
  const auto found = std::ranges::find_if(runs_, [number](const Run& run) { return run.work.number == number; });
  return found == runs_.end() ? nullptr : &*found;
}

void StageCore::advance(Effects& out) {
  int64_t at_executor = 0;
  for (const Run& run : runs_) at_executor += run.at_executor;
  while (!failed_ && at_executor < kAhead) {
    const auto next = next_action();
    if (!next) return;
    const auto& [run, action] = *next;
    if (!is_work(action)) {  // the worker's business: it begins with each gradient that is complete
      run->order.ran(action);
      continue;
    }
    // Made by another chunk of this stage, and still at the executor.
    if (const auto input = input_of(*run, action); input && arrived_.count(*input) == 0) return;
    submit(out, *run, action);
    ++at_executor;
  }
}

// Backwards of the oldest work first; behind it forwards, in the order of the work, up to what 1F1B holds.
std::optional<std::pair<StageCore::Run*, Action>> StageCore::next_action() {
  int64_t held = 0;
  bool oldest = true;
  for (Run& run : runs_) {
    held += run.held;
    if (run.order.done()) continue;
    const std::optional<Action> action = run.order.next();
    const bool forward = action && action->kind == ActionKind::forward;
    if (action && !has_room(run, *action)) return {};
    if (action && (oldest || (forward && held < int64_t{stages()} - stage()))) return std::pair(&run, *action);
    if (run.forwards_left > 0) return {};
    oldest = false;
  }
  return {};
}

// Where the action's input comes from another chunk.
std::optional<StageCore::Key> StageCore::input_of(const Run& run, const Action& action) const {
  if (action.kind == ActionKind::forward && action.chunk > 0)
    return Key{run.key_step, Activation::Kind::forward, action.chunk, action.micro_batch};
  if (action.kind == ActionKind::backward_input && action.chunk < last_chunk())
    return Key{run.key_step, Activation::Kind::backward, action.chunk, action.micro_batch};
  return {};
}

// The other stage that makes what the key names; none where none does.
std::optional<uint32_t> StageCore::maker(const Key& key) const {
  if (key.chunk > last_chunk() || !here(key.chunk)) return {};
  const auto elsewhere = [&](uint32_t chunk) -> std::optional<uint32_t> {
    if (here(chunk)) return {};
    return options_.plan.schedule->stage_of[chunk];
  };
  switch (key.kind) {
    case Activation::Kind::forward: return key.chunk > 0 ? elsewhere(key.chunk - 1) : std::nullopt;
    case Activation::Kind::backward: return key.chunk < last_chunk() ? elsewhere(key.chunk + 1) : std::nullopt;
    case Activation::Kind::tied: break;
  }
  const LayerId layer = key.micro_batch;
  if (std::ranges::find(options_.plan.tied, layer, &TiedLayer::layer) == options_.plan.tied.end()) return {};
  const uint32_t owner = chunk_of(layer);
  const bool owned = here(owner);
  if (key.chunk != (owned ? owner : reader(layer, true))) return {};
  return elsewhere(owned ? reader(layer, false).value_or(owner) : owner);
}

// Whether the next stage has taken enough of an evaluation for one more output.
bool StageCore::has_room(const Run& run, const Action& action) const {
  if (run.work.kind == Work::Kind::train || action.chunk == last_chunk() || here(action.chunk + 1)) return true;
  const auto waiting = std::ranges::count_if(unacknowledged_, [&](const auto& entry) {
    return entry.first.step < 0 && entry.first.chunk == action.chunk + 1;  // also of the evaluation before this one
  });
  return waiting + run.at_executor < kTests;
}

void StageCore::note_arrival(Run& run, const Key& key) const {
  if (key.step != run.key_step || key.kind == Activation::Kind::tied || key.micro_batch >= run.micro.size()) return;
  if (key.kind == Activation::Kind::forward)
    run.order.arrived(ActionKind::forward, key.chunk - 1, key.micro_batch);
  else
    run.order.arrived(ActionKind::backward_input, key.chunk + 1, key.micro_batch);
}

void StageCore::submit(Effects& out, Run& run, const Action& action) {
  StageTask task{action.kind, run.work, action.micro_batch, action.chunk, run.micro[action.micro_batch], 0, {}, {}};
  task.first_sample = task.samples.begin - run.work.range.begin;
  if (const auto key = input_of(run, action)) {
    if (const auto from = maker(*key); from && run.work.kind == Work::Kind::evaluate)
      acknowledge(out, *key, holder(key->chunk - 1));
    Activation input = std::move(arrived_.extract(*key).mapped());
    if (input.samples != task.samples)
      return fault(out, cat("in step ", run.work.step, " the ", name_of(key->kind), " of micro-batch ",
                            action.micro_batch, " for chunk ", action.chunk, " are of samples [", input.samples.begin,
                            ", +", input.samples.count, ") of epoch ", input.samples.epoch, ", expected [",
                            task.samples.begin, ", +", task.samples.count, ") of epoch ", task.samples.epoch));
    if (!input.tensors.empty()) task.input = std::move(input.tensors.front());
    run.taken.insert(*key);
  }
  if (action.kind == ActionKind::backward_weight) task.gradients = complete_after(run, action);
  run.order.ran(action);
  ++run.at_executor;
  run.forwards_left -= action.kind == ActionKind::forward;
  run.held += (action.kind == ActionKind::forward) - (action.kind == ActionKind::backward_weight);
  moved(cat(action_text(*options_.plan.schedule, action), asynchronous() ? cat(" of step ", run.work.step) : ""));
  out.tasks.push_back(std::move(task));
}

// Layers to which no micro-batch of this stage will add any more.
std::vector<LayerId> StageCore::complete_after(Run& run, const Action& action) const {
  std::vector<LayerId> complete;
  if (++run.weighted[action.chunk] < run.micro.size()) return complete;
  const auto over = [&](LayerId layer) {
    return std::ranges::all_of(contributors(layer), [&](uint32_t chunk) {
      const auto weighted = run.weighted.find(chunk);
      return !here(chunk) || (weighted != run.weighted.end() && weighted->second == run.micro.size());
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
  Run* run = run_of_work(task.work.number);
  if (!run) return out;
  --run->at_executor;
  if (task.kind == ActionKind::forward && task.chunk < last_chunk())
    hand_on(out, *run, Activation::Kind::forward, task.chunk + 1, task.micro_batch, std::move(output));
  if (task.kind == ActionKind::backward_input && task.chunk > 0)
    hand_on(out, *run, Activation::Kind::backward, task.chunk - 1, task.micro_batch, std::move(output));
  advance(out);
  finish(out);
  return out;
}

void StageCore::hand_on(Effects& out, const Run& run, Activation::Kind kind, uint32_t chunk, uint32_t micro_batch,
                        Tensor tensor) {
  Activation activation{kind, run.key_step, micro_batch, chunk, {}, {}};
  activation.samples = kind == Activation::Kind::tied ? run.work.range : run.micro[micro_batch];
  activation.tensors.push_back(std::move(tensor));
  const Key key{run.key_step, kind, chunk, micro_batch};
  if (here(chunk) && kind != Activation::Kind::tied) {
    arrived_[key] = std::move(activation);
    return;
  }
  Envelope envelope{options_.self, holder(chunk), generation_, std::move(activation)};
  unacknowledged_[key] = envelope;
  out.send.push_back(std::move(envelope));
}

StageCore::Effects StageCore::gradient(uint64_t work, LayerId layer, Tensor sum) {
  Effects out;
  Run* run = run_of_work(work);
  if (!run) return out;
  const uint32_t owner = chunk_of(layer);
  const bool keeps = here(owner) || on_both(layer);
  const std::optional<uint32_t> elsewhere = !here(owner) ? owner : on_both(layer) ? reader(layer, false) : std::nullopt;
  if (elsewhere) hand_on(out, *run, Activation::Kind::tied, *elsewhere, layer, sum);
  if (!keeps) return out;
  run->sums[layer] = std::move(sum);
  add_tied(out, *run, layer);
  finish(out);
  return out;
}

// The owner's sum first, then the other stage's: the same order in every run.
void StageCore::add_tied(Effects& out, Run& run, LayerId layer) {
  const auto sum = run.sums.find(layer);
  if (sum == run.sums.end()) return;
  const uint32_t owner = chunk_of(layer);
  const bool owned = here(owner);
  const Key key{run.key_step, Activation::Kind::tied, owned ? owner : reader(layer, true).value(), layer};
  Tensor other;
  const bool elsewhere = std::ranges::any_of(contributors(layer), [&](uint32_t chunk) { return !here(chunk); });
  if (elsewhere) {
    const auto found = arrived_.find(key);
    if (found == arrived_.end()) return;
    Activation part = std::move(found->second);
    arrived_.erase(found);
    if (part.samples != run.work.range || part.tensors.empty() || part.tensors[0].dtype() != DType::f32 ||
        part.tensors[0].count() != sum->second.count())
      return fault(out, cat("the part of another stage in the gradient of layer ", layer, " does not fit it"));
    other = std::move(part.tensors[0]);
  }
  if (!owned) std::swap(sum->second, other);
  run.complete[layer] = {layer, std::move(sum->second), std::move(other), run.work.number};
  run.sums.erase(sum);
  // Collectives among replicas are told apart by their order alone.
  for (; run.left < run.gradient_order.size() && run.complete.count(run.gradient_order[run.left]) > 0; ++run.left)
    out.gradients.push_back(std::move(run.complete.extract(run.gradient_order[run.left]).mapped()));
}

void StageCore::finish(Effects& out) {
  while (!runs_.empty()) {
    Run& run = runs_.front();
    const bool train = run.work.kind == Work::Kind::train;
    if (!run.order.done() || run.at_executor > 0) return;
    if (train && run.left < run.gradient_order.size()) return;
    // The parts of tied layers have left before this: the executor answers them in order.
    if (train) {
      steps_done_ = run.work.step;
      // A neighbour that took part in this step has what earlier ones gave it, whether it could say so or not.
      const Step taken = run.work.step - (asynchronous() ? stages() : 0);
      std::erase_if(unacknowledged_, [&](const auto& entry) { return entry.first.step < taken; });
    } else {
      ++evaluations_done_;
    }
    moved("is done");
    std::erase_if(arrived_, [&](const auto& entry) { return entry.first.step == run.key_step; });
    out.done.push_back(std::move(run.work));
    runs_.pop_front();
  }
}

}  // namespace troupe::ps
