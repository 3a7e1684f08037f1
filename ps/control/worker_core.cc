#include <troupe/ps/control/worker_core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/param/buckets.h>
#include <troupe/ps/param/request_check.h>

namespace troupe::ps {

WorkerCore::WorkerCore(WorkerOptions options, const std::vector<LayerSpec>& layers, std::vector<size_t> gradient_order)
    : options_(options),
      layers_(layers),
      gradient_order_(std::move(gradient_order)),
      local_(layers.size()),
      local_step_(layers.size(), -1) {
  if (gradient_order_.empty())
    for (size_t layer = layers_.size(); layer-- > 0;) gradient_order_.push_back(layer);
  TROUPE_CHECK(gradient_order_.size() == layers_.size(), gradient_order_.size(), " gradients of ", layers_.size(),
               " layers");
}

// ---- messages ------------------------------------------------------------------------------------------

WorkerCore::Effects WorkerCore::handle(const Envelope& envelope) {
  Effects out;
  if (envelope.from.role == Role::coordinator && envelope.generation < options_.since) return out;
  if (const auto* membership = std::get_if<Membership>(&envelope.body)) {
    on(out, *membership, envelope.generation);
    return out;
  }
  if (std::holds_alternative<Finish>(envelope.body)) {
    // A coordinator whose place another has taken ends nobody.
    out.finished = envelope.generation >= membership_.generation;
    return out;
  }
  // What an older generation said is asked for again under the new one.
  if (!membership_.layout || envelope.generation < membership_.generation) return out;
  if (const auto* m = std::get_if<Work>(&envelope.body)) on(out, *m);
  else if (const auto* m = std::get_if<WorkDoneAck>(&envelope.body)) on(out, *m);
  else if (const auto* m = std::get_if<PushAck>(&envelope.body)) on(out, *m);
  else if (const auto* m = std::get_if<PullReply>(&envelope.body)) on(out, *m);
  else if (const auto* m = std::get_if<Refused>(&envelope.body)) on(out, *m);
  else if (const auto* m = std::get_if<Verdict>(&envelope.body)) on(out, *m);
  else if (const auto* m = std::get_if<InstallAck>(&envelope.body)) on(out, *m, envelope.from.index);
  else if (const auto* m = std::get_if<CollectiveId>(&envelope.body)) on(out, *m);
  return out;
}

Status WorkerCore::check(const Membership& membership) const {
  TROUPE_TRY(check_membership(membership));
  if (options_.self.index >= membership.workers.size())
    return fail(ErrorKind::invalid, cat("the membership has ", membership.workers.size(), " workers"));
  const std::vector<LayerSpec>& theirs = membership.layout->layers;
  bool same = theirs.size() == layers_.size();
  for (size_t i = 0; same && i < layers_.size(); ++i)
    same = theirs[i].count == layers_[i].count && theirs[i].row_width == layers_[i].row_width;
  if (!same) return fail(ErrorKind::invalid, "the membership's layout is of another model");
  if (membership_.layout && !membership.rebase &&
      (membership.layout->parcels.size() != parcels_.size() || membership.servers.size() != membership_.servers.size()))
    return fail(ErrorKind::invalid, "the membership's layout is another, and it says no step to go on from");
  return options_.weight_lag > 0 ? check_asynchronous(*membership.layout) : Status{};
}

Status WorkerCore::check_asynchronous(const Layout& layout) const {
  if (holds_pushes())
    return fail(ErrorKind::invalid, "an asynchronous pipeline cannot wait for a verdict on each step: no clipping, no "
                                    "skipping of steps that are not finite");
  for (size_t layer = 0; layer < layers_.size(); ++layer)
    if (const Policy policy = layout.policies[layer]; policy.mode != Mode::sync)
      return fail(ErrorKind::invalid, cat("layer ", layers_[layer].name, " is ", describe(policy),
                                          "; an asynchronous pipeline needs sync layers, which are read by version"));
  return {};
}

void WorkerCore::on(Effects& out, const Membership& membership, Generation generation) {
  if (generation < membership_.generation) return;
  const bool news = generation > membership_.generation;
  if (news) {
    if (const Status possible = check(membership); !possible)
      return to_coordinator(out, Fault{cat(options_.self, ": ", possible.error().message)});
    const Incarnation here = membership.workers[options_.self.index];
    if (here != 0 && here < options_.self.incarnation) return;  // overtaken by the start of this actor
    if (here != options_.self.incarnation) {
      out.finished = true;  // somebody else fills this slot now
      return;
    }
    const Membership before = std::exchange(membership_, membership);
    const bool first = !before.layout;
    next_sequence_.resize(membership.servers.size(), 1);
    if (first || membership.rebase) {
      TROUPE_CHECK(open_.empty(), "generation ", generation, " rebases while ", open_.size(), " steps are open");
      parcels_.assign(layout().parcels.size(), {});
      parcels_of_.assign(layers_.size(), {});
      for (const Parcel& parcel : layout().parcels)
        for (SliceId slice : parcel.slices) {
          auto& list = parcels_of_[layout().slices[slice].layer];
          if (list.empty() || list.back() != parcel.id) list.push_back(parcel.id);
        }
      std::vector<size_t> mine;
      std::ranges::copy_if(gradient_order_, std::back_inserter(mine),
                           [this](size_t layer) { return computes(static_cast<LayerId>(layer)); });
      buckets_ = make_buckets(layout(), mine, options_.bucket_bytes);
      std::fill(local_.begin(), local_.end(), SliceState{});  // the servers have what counts
      std::fill(local_step_.begin(), local_step_.end(), -1);
      host_step_.reset();
    } else {
      forget_reads(before.servers);
    }
  }
  to_coordinator(out, MembershipAck{});
  if (!news) return;
  regroup(out);
  Effects again = tick();
  out.send.insert(out.send.end(), again.send.begin(), again.send.end());
}

// Whoever follows a server that was lost may go on from older parameters. What was read of that one ahead of a step is
// read again when the step begins, so that it computes with what its servers hold. A step that has begun was dealt
// before the loss and keeps what it has read; a test reads again.
void WorkerCore::forget_reads(const std::vector<Incarnation>& servers_before) {
  if (options_.weight_lag > 0) return;  // no server has its versions any more
  const Work* work = running_.empty() ? nullptr : &newest().work;
  for (const Parcel& parcel : layout().parcels) {
    ParcelState& state = parcels_[parcel.id];
    if (membership_.servers.at(parcel.server) == servers_before.at(parcel.server)) continue;
    const bool in_use = work && state.arrived.count(work->step) > 0;
    if (in_use && work->kind == Work::Kind::train) continue;
    state.arrived.clear();
    if (in_use && !newest().computes) state.pulling = Pull{parcel.id, work->step, next_ticket_++};
  }
}

void WorkerCore::on(Effects& out, const Work& work) {
  if (work.number != next_number_ || waiting_) return;  // a repetition
  waiting_ = work;
  ++next_number_;
  start(out);
  if (waiting_ && newest().computes) prepare(out);
}

void WorkerCore::on(Effects&, const WorkDoneAck& ack) { unacked_done_.erase(ack.number); }

void WorkerCore::on(Effects& out, const PushAck& ack) {
  if (ack.parcel >= parcels_.size()) return;
  ParcelState& parcel = parcels_[ack.parcel];
  if (!parcel.unacked || parcel.unacked->sequence != ack.sequence) return;
  const Step step = parcel.unacked->step;
  parcel.unacked.reset();
  parcel.stored = step;
  parcel.held = false;
  send_pushes(out, ack.parcel);
  close(out, step);
}

void WorkerCore::on(Effects& out, const PullReply& reply) {
  if (reply.parcel >= parcels_.size()) return;
  ParcelState& parcel = parcels_[reply.parcel];
  if (!parcel.pulling || parcel.pulling->ticket != reply.ticket) return;
  if (const Status fits = check_pull_reply(reply, *parcel.pulling, layout()); !fits)
    return to_coordinator(out,
                          Fault{cat(options_.self, ": a server's answer is not possible: ", fits.error().message)});
  parcel.pulling.reset();
  parcel.arrived[reply.step] = reply;
  confirm_stored(out, reply.parcel, reply.step);
  send_pushes(out, reply.parcel);
  broadcast(out);
  advance(out);
}

void WorkerCore::on(Effects& out, const Refused& refused) {
  switch (refused.reason) {
    case Refused::Reason::stale_generation:
      return;  // said again when the generation comes
    case Refused::Reason::stale_incarnation:
      out.finished = true;
      return;
    case Refused::Reason::malformed:
      to_coordinator(out, Fault{cat(options_.self, ": a server refused parcel ", refused.parcel, " of step ",
                                    refused.step, ": ", refused.detail)});
  }
}

WorkerCore::Effects WorkerCore::tick() {
  Effects out;
  if (!membership_.layout) {
    // One that was replaced before it was invited hears it in the answer.
    to_coordinator(out, WorkRequest{next_number_});
    return out;
  }
  for (const Parcel& parcel : layout().parcels) {
    const ParcelState& state = parcels_[parcel.id];
    if (state.unacked && !state.held) send(out, server_of(parcel.id), *state.unacked);
    if (state.pulling) send(out, server_of(parcel.id), *state.pulling);
  }
  for (const auto& [server, install] : installing_)
    send(out, {Role::server, server, membership_.servers[server]}, install);
  for (const auto& [number, done] : unacked_done_) to_coordinator(out, done);
  if (partial_) to_coordinator(out, *partial_);
  say_of_group(out);
  // A stage may have its next piece of work and wait for a neighbour alone: whoever replaced it has told nobody but the
  // coordinator, which answers.
  if (!waiting_ || layout().stages > 1) to_coordinator(out, WorkRequest{waiting_ ? next_number_ - 1 : next_number_});
  return out;
}

// ---- a step --------------------------------------------------------------------------------------------------

// Another piece of work may begin: nothing runs, or an asynchronous pipeline's next step has a place behind those that
// do. A step without samples is over as it begins, so it waits until all before it are.
bool WorkerCore::has_room() const {
  if (running_.empty()) return true;
  return static_cast<Step>(running_.size()) <= options_.weight_lag && running_.back().computes &&
         running_.back().work.kind == Work::Kind::train && waiting_->kind == Work::Kind::train &&
         waiting_->range.count > 0;
}

WorkerCore::Running& WorkerCore::running(Step step) {
  const auto found = std::ranges::find_if(running_, [step](const Running& r) { return r.work.step == step; });
  TROUPE_CHECK(found != running_.end() && found->computes, "step ", step, " does not run");
  return *found;
}

const std::vector<Tensor>& WorkerCore::weights(const Work& work) const {
  const auto found = std::ranges::find_if(running_, [&](const Running& r) { return r.work.number == work.number; });
  TROUPE_CHECK(found != running_.end(), "piece of work ", work.number, " does not run");
  return found->weights;
}

// The step whose weights the work reads.
Step WorkerCore::version_for(const Work& work) const {
  return work.kind == Work::Kind::train ? std::min(work.step, std::max(work.step - options_.weight_lag, work.since))
                                        : work.step;
}

void WorkerCore::start(Effects& out) {
  if (!waiting_ || !has_room()) return;
  running_.push_back({std::move(*waiting_), std::vector<Tensor>(layers_.size()), 0, {}, {}, false,
                      std::vector<Tensor>(layers_.size()), {}, 0, {}});
  waiting_.reset();
  to_coordinator(out, WorkRequest{next_number_});
  if (newest().work.kind == Work::Kind::upload) begin_upload(out);
  else begin(out);
}

void WorkerCore::begin(Effects& out) {
  const Work& work = newest().work;
  const bool train = work.kind == Work::Kind::train;
  if (train) {
    OpenStep& open = open_[work.step];
    open.done.number = work.number;
    open.done.step = work.step;
    open.missing = 1;
    for (const Parcel& parcel : layout().parcels)
      open.missing += computes(parcel) && parcel.policy.mode != Mode::all_reduce;
    for (LayerId layer = 0; layer < layers_.size(); ++layer)
      open.missing += computes(layer) && policy(layer).mode == Mode::all_reduce;
  }
  const Step version = version_for(work);
  for (const Parcel& parcel : layout().parcels) {
    if (!reads(parcel)) continue;
    ParcelState& state = parcels_[parcel.id];
    if (parcel.policy.mode == Mode::all_reduce) {
      // It may hold layers that this stage does not read.
      const bool here = std::ranges::any_of(parcel.slices, [&](SliceId slice) {
        const LayerId layer = layout().slices[slice].layer;
        return reads(layer) && local_step_[layer] >= 0;
      });
      if (!here && !state.pulling && state.arrived.count(work.step) == 0) pull(out, parcel.id, work.step);
      continue;
    }
    // A test sees what the servers hold now, not what was read ahead for the next step. What is to be pulled behind a
    // push of this actor comes by itself.
    if (train && by_rows(parcel.id)) continue;  // pull_rows
    if (comes_by_group(work, layout().slices[parcel.slices.front()].layer) && !is_root()) continue;
    const bool coming = !state.queued.empty() || (state.pulling && state.pulling->step == version) ||
                        (version < work.step && version > work.since);
    if (!train || (!coming && state.arrived.count(version) == 0)) pull(out, parcel.id, version);
  }
  if (train) find_rows(out, work);
  pull_rows(out);
  advance(out);
}

void WorkerCore::find_rows(Effects& out, const Work& work) {
  if (std::ranges::none_of(layers_, [](const LayerSpec& layer) { return ps::by_rows(layer); })) return;
  const auto [found, first] = rows_.try_emplace(work.number);
  if (!first) return;
  if (work.range.count > 0) return out.tasks.push_back(FindRows{work});
  for (const LayerSpec& layer : layers_)
    found->second.push_back(ps::by_rows(layer) ? Tensor::empty({0}, DType::i32) : Tensor{});
}

WorkerCore::Effects WorkerCore::rows_found(uint64_t work, std::vector<Tensor> rows) {
  Effects out;
  TROUPE_CHECK(rows.size() == layers_.size(), "rows of ", rows.size(), " layers, there are ", layers_.size());
  const auto found = rows_.find(work);
  if (found == rows_.end()) return out;
  found->second = std::move(rows);
  pull_rows(out);
  advance(out);  // a test may have read the whole layer for this step
  return out;
}

// Those of the step that waits for weights, as soon as it is known which, behind the push of the step before.
void WorkerCore::pull_rows(Effects& out) {
  if (running_.empty() || newest().computes || newest().work.kind != Work::Kind::train) return;
  const auto found = rows_.find(newest().work.number);
  if (found == rows_.end() || found->second.empty()) return;
  const Step step = newest().work.step;
  for (const Parcel& parcel : layout().parcels) {
    if (!by_rows(parcel.id)) continue;
    ParcelState& state = parcels_[parcel.id];
    const bool asked = state.pulling && state.pulling->step == step;
    if (asked || state.arrived.count(step) > 0 || !state.queued.empty()) continue;
    pull(out, parcel.id, step, rows_in(newest().work, layout().slices[parcel.slices.front()]));
  }
}

// The rows of a slice that the work's batch reads.
Tensor WorkerCore::rows_in(const Work& work, const Slice& slice) const {
  const Tensor& all = rows_.at(work.number)[slice.layer];
  const auto rows = all.span<int32_t>();
  const int64_t width = layers_[slice.layer].row_width;
  const auto begin = std::ranges::lower_bound(rows, slice.begin / width);
  const auto end = std::ranges::lower_bound(rows, slice.end / width);
  return all.view(begin - rows.begin(), {end - begin});
}

void WorkerCore::pull(Effects& out, ParcelId parcel, Step step, Tensor rows) {
  ParcelState& state = parcels_[parcel];
  state.arrived.erase(step);
  state.arrived.erase(state.arrived.begin(), state.arrived.lower_bound(computed_ + 1 - options_.weight_lag));
  state.pulling = Pull{parcel, step, next_ticket_++, std::move(rows)};
  send(out, server_of(parcel), *state.pulling);
}

// Gives out the longest run of layers whose weights are here, then the backward pass.
void WorkerCore::advance(Effects& out) {
  if (running_.empty() || newest().work.kind == Work::Kind::upload || newest().computes) return;
  Running& now = newest();
  const size_t first = now.forwarded;
  while (now.forwarded < layers_.size() && take_weights(static_cast<LayerId>(now.forwarded))) ++now.forwarded;
  const bool train = now.work.kind == Work::Kind::train;
  const bool has_samples = now.work.range.count > 0;
  if (train && has_samples && now.forwarded > first) out.tasks.push_back(Forward{now.work, first, now.forwarded});
  std::erase_if(now.again, [this](LayerId layer) { return take_weights(layer); });
  if (now.forwarded < layers_.size() || !now.again.empty() || (train && group_undecided())) return;
  now.computes = true;
  if (!train) {
    out.tasks.push_back(Evaluate{now.work});
    return;
  }
  computed_ = now.work.step;
  begin_host_step(now.work);
  if (has_samples) {
    // A stage's gradients come in any order, and are put into their buckets here.
    std::vector<Bucket> reduced = holds_pushes() ? std::vector<Bucket>{} : buckets(now);
    if (layout().stages > 1) now.filler = BucketFiller(std::exchange(reduced, {}));
    out.tasks.push_back(Backward{now.work, std::move(reduced), layers_on_host()});
    start(out);
    if (waiting_) prepare(out);
  } else {
    // Nothing to compute, but the step counts: others wait for this worker's word.
    const Step step = now.work.step;
    for (LayerId layer = 0; layer < layers_.size(); ++layer)
      if (computes(layer) && (policy(layer).mode == Mode::all_reduce || on_host(layer)))
        now.gradients[layer] = Tensor::zeros({layers_[layer].count});
    push_everything(out, now);
    end(step);
    close(out, step);
    start(out);
  }
}

// The step that waits, while the one that runs awaits the answers to its pushes.
void WorkerCore::prepare(Effects& out) {
  if (waiting_->kind != Work::Kind::train || waiting_->range.count == 0) return;
  out.tasks.push_back(Prepare{*waiting_});
  find_rows(out, *waiting_);
}

// Puts a layer's weights in place if all of them are here.
bool WorkerCore::take_weights(LayerId layer) {
  if (!reads(layer)) return true;
  Running& now = newest();
  const Step step = now.work.step, version = version_for(now.work);
  const bool own = policy(layer).mode == Mode::all_reduce;
  if (own && local_step_[layer] >= 0) {
    if (local_step_[layer] != step) return false;
    now.weights[layer] = local_[layer].values;
    return true;
  }
  if (const auto kept = now.kept.find(layer); kept != now.kept.end()) {
    now.weights[layer] = kept->second;
    return bool(kept->second);
  }
  if (comes_by_group(now.work, layer)) return take_given(layer);
  for (ParcelId parcel : parcels_of_[layer])
    if (parcels_[parcel].arrived.count(version) == 0) return false;

  const bool some_rows = layers_[layer].row_width > 0 && now.work.kind == Work::Kind::train;
  if (some_rows && rows_.at(now.work.number).empty()) return false;  // not known yet
  OpenStep* open = now.work.kind == Work::Kind::train ? &open_.at(step) : nullptr;
  const int64_t count = layers_[layer].count;
  Tensor whole;
  SliceState local;
  for (ParcelId parcel : parcels_of_[layer]) {
    const PullReply& reply = parcels_[parcel].arrived.at(version);
    const auto& slices = layout().parcels[parcel].slices;
    for (size_t i = 0; i < slices.size(); ++i) {
      const Slice& slice = layout().slices[slices[i]];
      if (slice.layer != layer) continue;
      if (open) {
        const bool read_before = (version == now.work.since && step > version) ||  // by the step that began then
                                 (is_root() && now.again.contains(layer));
        if (!read_before) open->done.pulled_bytes += static_cast<int64_t>(reply.values[i].bytes());
        open->done.max_lag = std::max(open->done.max_lag, step - version + reply.lag);
      }
      if (some_rows) continue;
      if (!own && slice.count() == count) {
        whole = reply.values[i];  // the server's published version itself
        continue;
      }
      if (!whole) whole = Tensor::empty({count});
      std::memcpy(whole.data<float>() + slice.begin, reply.values[i].data<float>(), reply.values[i].bytes());
      if (!own) continue;
      const SliceState& state = reply.state[i];
      local.updates = state.updates;
      local.state.resize(state.state.size());
      for (size_t k = 0; k < state.state.size(); ++k) {
        if (!local.state[k]) local.state[k] = Tensor::empty({count});
        std::memcpy(local.state[k].data<float>() + slice.begin, state.state[k].data<float>(),
                    state.state[k].bytes());
      }
    }
  }
  now.weights[layer] = some_rows ? row_weights(now.work, layer) : whole;
  if (own) {
    local.values = whole;
    local_[layer] = std::move(local);
    local_step_[layer] = step;
  }
  return true;
}

// Those that the work's batch reads, one behind the other: parcels of a layer by rows ascend as its rows do. What a
// test has read for this step is all of a parcel.
Tensor WorkerCore::row_weights(const Work& work, LayerId layer) const {
  const int64_t width = layers_[layer].row_width;
  std::vector<Tensor> parts;
  int64_t count = 0;
  for (const ParcelId parcel : parcels_of_[layer]) {
    const Slice& slice = layout().slices[layout().parcels[parcel].slices.front()];
    const Tensor rows = rows_in(work, slice);
    Tensor values = parcels_[parcel].arrived.at(work.step).values.front();
    if (values.count() != rows.count() * width)
      values = gather_rows(values, static_cast<int32_t>(slice.begin / width), rows.span<int32_t>(), width);
    count += values.count();
    parts.push_back(std::move(values));
  }
  if (parts.size() == 1) return parts.front();
  Tensor together = Tensor::empty({count});
  float* to = together.data<float>();
  for (const Tensor& part : std::as_const(parts)) {
    std::memcpy(to, part.raw(), part.bytes());
    to += part.count();
  }
  return together;
}

WorkerCore::Effects WorkerCore::gradient_ready(Step step, LayerId layer, Tensor gradient, double sum_of_squares,
                                               bool finite) {
  Effects out;
  Running& now = running(step);
  now.gradients[layer] = std::move(gradient);
  now.sum_of_squares += sum_of_squares;
  if (!finite) {
    now.non_finite.push_back(layer);
    if (!options_.skip_non_finite)
      to_coordinator(out, Fault{cat("the gradient of layer ", layers_[layer].name, " on worker ",
                                    options_.self.index, " in step ", step,
                                    " holds NaN or Inf; lower the learning rate, clip the gradient "
                                    "(train.clip_norm), or skip such steps (train.on_nonfinite = \"skip\")")});
  }
  if (holds_pushes() || !now.non_finite.empty()) return out;
  if (policy(layer).mode != Mode::all_reduce) {
    push_ready_parcels(out, now, layer);
  } else if (now.filler.take(layer, now.gradients[layer])) {
    for (Bucket bucket = now.filler.next(); !bucket.empty(); bucket = now.filler.next())
      out.tasks.push_back(std::move(bucket));
  }
  return out;
}

WorkerCore::Effects WorkerCore::backward_done(Step step, const StepStats& stats, double compute_s,
                                              double wait_s) {
  Effects out;
  Running& now = running(step);
  OpenStep& open = open_.at(step);
  open.done.stats = stats;
  open.done.compute_s = compute_s;
  open.done.wait_s = wait_s;
  for (LayerId layer : now.non_finite)
    open.done.non_finite += cat(open.done.non_finite.empty() ? "layer " : ", layer ", layers_[layer].name);
  // Under "stop" a step with NaN is never pushed: the Fault is on its way, and the run ends.
  if (!now.non_finite.empty() && !options_.skip_non_finite) return out;
  if (holds_pushes()) push_everything(out, now);
  end(step);
  close(out, step);
  start(out);
  return out;
}

// ---- pushes ----------------------------------------------------------------------------------------------------

void WorkerCore::push_everything(Effects& out, Running& step) {
  if (!buckets_.empty()) {
    reduce_work_ = step.work;
    reduced_squares_ = 0;
    reduced_finite_ = true;
  }
  for (Bucket& bucket : buckets(step)) {
    for (Reduce& task : bucket) {
      task.gradient = step.gradients[task.layer];
      if (step.non_finite.empty()) continue;
      // The sum of all workers then says that this step is not finite, whichever layer it was.
      task.gradient = Tensor::zeros({layers_[task.layer].count});
      if (!task.host) task.gradient.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    }
    out.tasks.push_back(std::move(bucket));
  }
  for (size_t i = layout().parcels.size(); i-- > 0;)
    if (computes(layout().parcels[i]) && layout().parcels[i].policy.mode != Mode::all_reduce &&
        !on_host(layout().parcels[i]))
      push(out, step, static_cast<ParcelId>(i));
}

void WorkerCore::push_ready_parcels(Effects& out, Running& step, LayerId layer) {
  for (ParcelId parcel : parcels_of_[layer]) {
    const auto& slices = layout().parcels[parcel].slices;
    if (std::all_of(slices.begin(), slices.end(),
                    [&](SliceId s) { return bool(step.gradients[layout().slices[s].layer]); }))
      push(out, step, parcel);
  }
}

void WorkerCore::push(Effects& out, const Running& step, ParcelId id) {
  const Parcel& parcel = layout().parcels[id];
  Push push;
  push.parcel = id;
  push.step = step.work.step;
  push.schedule_step = step.work.schedule_step;
  push.finite = step.non_finite.empty();
  if (push.finite && step.work.range.count > 0) {
    push.samples = step.work.range.count;
    for (SliceId s : parcel.slices) {
      const Slice& slice = layout().slices[s];
      if (by_rows(id))
        add_rows(push, step, slice);
      else
        push.gradients.push_back(step.gradients[slice.layer].view(slice.begin, {slice.count()}));
      open_.at(push.step).done.pushed_bytes += static_cast<int64_t>(push.gradients.back().bytes());
    }
    if (parcel.policy.immediate() && options_.clip_norm > 0) {
      const double norm = std::sqrt(step.sum_of_squares) / static_cast<double>(push.samples);
      if (norm > options_.clip_norm) push.scale = options_.clip_norm / norm;
    }
  }
  enqueue(out, id, std::move(push));
}

void WorkerCore::enqueue(Effects& out, ParcelId id, Push push) {
  std::deque<Push>& queued = parcels_[id].queued;
  const bool in_order = queued.empty() || queued.back().step < push.step;
  TROUPE_CHECK(in_order && static_cast<Step>(queued.size()) <= options_.weight_lag, "parcel ", id, " has ",
               queued.size(), " pushes open before that of step ", push.step);
  queued.push_back(std::move(push));
  send_pushes(out, id);
}

// Those of the slice among the rows that the step's batch reads, which the layer's gradient is of.
void WorkerCore::add_rows(Push& push, const Running& step, const Slice& slice) const {
  const Tensor& all = rows_.at(step.work.number)[slice.layer];
  const Tensor& gradient = step.gradients[slice.layer];
  const int64_t width = layers_[slice.layer].row_width;
  TROUPE_CHECK(gradient.count() == all.count() * width, "the gradient of layer ", layers_[slice.layer].name, " has ",
               gradient.count(), " elements, its ", all.count(), " rows ", all.count() * width);
  push.rows = rows_in(step.work, slice);
  const auto first = static_cast<int64_t>((push.rows.offset_bytes() - all.offset_bytes()) / sizeof(int32_t));
  push.gradients.push_back(gradient.view(first * width, {push.rows.count() * width}));
}

// One at a time. The weights of its own step have come before it leaves, whoever reads them: with it the server makes
// the next version, and the one before is gone.
void WorkerCore::send_pushes(Effects& out, ParcelId id) {
  ParcelState& parcel = parcels_[id];
  if (parcel.unacked || parcel.queued.empty()) return;
  if (parcel.pulling && parcel.pulling->step <= parcel.queued.front().step) return;
  Push push = std::move(parcel.queued.front());
  parcel.queued.pop_front();
  push.sequence = next_sequence_[layout().parcels[id].server]++;
  const Step next = push.step + 1;
  send(out, server_of(id), push);
  parcel.unacked = std::move(push);
  if (by_rows(id))
    pull_rows(out);
  // A sum of the host's devices comes after that was asked for.
  else if (!parcel.pulling || parcel.pulling->step != next)
    pull(out, id, next);
}

// ---- all_reduce layers ---------------------------------------------------------------------------------------------

// A step's buckets, without their gradients.
std::vector<Bucket> WorkerCore::buckets(const Running& step) const {
  const Work& work = step.work;
  std::vector<Bucket> buckets = host_buckets(step);
  for (const std::vector<LayerId>& layers : buckets_) {
    Bucket& bucket = buckets.emplace_back();
    for (const LayerId layer : layers) {
      Reduce& task = bucket.emplace_back(Reduce{work.step, layer, {}, {}, {}});
      if (!holds_pushes() && work.step_samples > 0) task.apply = update_of(layer, work, {}, 1);
    }
  }
  return buckets;
}

WorkerCore::Effects WorkerCore::reduced(Step step, LayerId layer, Tensor gradient, double sum_of_squares,
                                        bool finite) {
  Effects out;
  TROUPE_CHECK(reduce_work_.step == step, "reduced step ", step, " of ", reduce_work_.step);
  reduced_[layer] = std::move(gradient);
  const double samples = static_cast<double>(std::max<int64_t>(reduce_work_.step_samples, 1));
  if (owns(layer)) reduced_squares_ += sum_of_squares / (samples * samples);  // a tied layer counts once
  reduced_finite_ = reduced_finite_ && finite;
  if (!holds_pushes()) {  // a step without samples: there is nothing to apply
    apply(out, layer, 1, true);
    return out;
  }
  if (!all_reduced()) return out;
  if (early_verdict_ && early_verdict_->step == step) {
    const Verdict verdict = *early_verdict_;
    on(out, verdict);
  } else {
    // All have the same sums and one of them is enough; the others say theirs when no verdict comes.
    partial_ = Partial{step, reduced_squares_, reduced_finite_, reduced_finite_ ? "" : "an all_reduce layer"};
    if (lowest()) to_coordinator(out, *partial_);
  }
  return out;
}

void WorkerCore::on(Effects& out, const Verdict& verdict) {
  if (verdict.step != reduce_work_.step || !all_reduced()) {
    // This worker's last reduction is still under way, or it is an old one's copy.
    if (!early_verdict_ || early_verdict_->step < verdict.step) early_verdict_ = verdict;
    return;
  }
  partial_.reset();
  const std::map<LayerId, Tensor> layers = reduced_;
  for (const auto& [layer, gradient] : layers) apply(out, layer, verdict.scale, verdict.skip);
}

bool WorkerCore::all_reduced() const {
  size_t all = 0;
  for (LayerId layer = 0; layer < layers_.size(); ++layer)
    all += computes(layer) && policy(layer).mode == Mode::all_reduce;
  return reduced_.size() == all;
}

void WorkerCore::apply(Effects& out, LayerId layer, double scale, bool skip) {
  Tensor gradient = std::move(reduced_.at(layer));
  reduced_.erase(layer);
  if (skip || reduce_work_.step_samples == 0) {
    Effects done = applied_locally(reduce_work_.step, layer, local_[layer]);
    out.send.insert(out.send.end(), done.send.begin(), done.send.end());
    out.tasks.insert(out.tasks.end(), done.tasks.begin(), done.tasks.end());
    return;
  }
  out.tasks.push_back(update_of(layer, reduce_work_, std::move(gradient), scale));
}

ApplyLocal WorkerCore::update_of(LayerId layer, const Work& work, Tensor gradient, double scale) const {
  return {work.step, work.schedule_step, layer, std::move(gradient), 1 / static_cast<double>(work.step_samples),
          scale, local_[layer]};
}

WorkerCore::Effects WorkerCore::applied_locally(Step step, LayerId layer, SliceState local) {
  Effects out;
  local_[layer] = std::move(local);
  local_step_[layer] = step + 1;
  close(out, step);
  advance(out);
  return out;
}

void WorkerCore::begin_upload(Effects& out) {
  std::vector<std::pair<LayerId, SliceState>> layers;
  bool on_device = false;
  for (LayerId layer = 0; layer < layers_.size(); ++layer) {
    const SliceState& local = local_[layer];
    if (policy(layer).mode != Mode::all_reduce || !local.values || !owns(layer)) continue;
    on_device = on_device || local.values.device().kind != DeviceKind::cpu;
    layers.emplace_back(layer, local);
  }
  if (on_device) out.tasks.push_back(Fetch{std::move(layers)});
  else install(out, layers);
}

WorkerCore::Effects WorkerCore::fetched(std::vector<std::pair<LayerId, SliceState>> layers) {
  Effects out;
  if (running_.empty()) return out;
  if (newest().work.kind == Work::Kind::upload) {
    install(out, layers);
    return out;
  }
  for (const auto& [layer, state] : layers)
    if (const auto kept = newest().kept.find(layer); kept != newest().kept.end()) kept->second = state.values;
  advance(out);
  return out;
}

void WorkerCore::install(Effects& out, const std::vector<std::pair<LayerId, SliceState>>& layers) {
  for (const auto& [layer, local] : layers)
    for (const Slice& slice : layout().slices) {
      if (slice.layer != layer) continue;
      SliceState part;
      part.slice = slice.id;
      part.updates = local.updates;
      part.values = local.values.view(slice.begin, {slice.count()}).clone();
      for (const Tensor& state : local.state)
        part.state.push_back(state.view(slice.begin, {slice.count()}).clone());
      Install& told = installing_[slice.server];
      told.round = newest().work.number;
      told.slices.push_back(std::move(part));
    }
  for (const auto& [server, install] : installing_)
    send(out, {Role::server, server, membership_.servers[server]}, install);
  if (installing_.empty()) finish_other_work(out, {}, 0);
}

void WorkerCore::on(Effects& out, const InstallAck& ack, ServerId server) {
  auto found = installing_.find(server);
  if (found == installing_.end() || found->second.round != ack.round) return;
  installing_.erase(found);
  if (installing_.empty()) finish_other_work(out, {}, 0);
}

// ---- the end of a piece of work ---------------------------------------------------------------------------------

WorkerCore::Effects WorkerCore::evaluated(const StepStats& stats, double compute_s) {
  Effects out;
  finish_other_work(out, stats, compute_s);
  return out;
}

void WorkerCore::finish_other_work(Effects& out, const StepStats& stats, double compute_s) {
  const Work& work = newest().work;
  WorkDone done;
  done.number = work.number;
  done.kind = work.kind;
  done.step = work.step;
  done.stats = stats;
  done.compute_s = compute_s;
  unacked_done_[done.number] = done;
  to_coordinator(out, done);
  running_.pop_back();
  start(out);
}

void WorkerCore::close(Effects& out, Step step) {
  auto found = open_.find(step);
  if (found == open_.end() || --found->second.missing > 0) return;
  WorkDone done = std::move(found->second.done);
  open_.erase(found);
  unacked_done_[done.number] = done;
  to_coordinator(out, done);
}

void WorkerCore::end(Step step) {
  for (const Running& running : running_)
    if (running.work.step == step) rows_.erase(running.work.number);
  std::erase_if(running_, [step](const Running& r) { return r.work.step == step; });
}

Endpoint WorkerCore::server_of(ParcelId parcel) const {
  const ServerId server = layout().parcels[parcel].server;
  return {Role::server, server, membership_.servers[server]};
}

bool WorkerCore::borrows(LayerId layer) const {
  return std::ranges::find(options_.reads, layer) != options_.reads.end();
}

bool WorkerCore::reads(const Parcel& parcel) const {
  if (computes(parcel)) return true;
  if (options_.reads.empty()) return false;
  return std::ranges::any_of(parcel.slices, [&](SliceId slice) { return reads(layout().slices[slice].layer); });
}

// Of the workers that compute the same layers.
bool WorkerCore::lowest() const {
  for (WorkerId worker = stage(); worker < options_.self.index; worker += layout().stages)
    if (membership_.workers[worker]) return false;
  return true;
}

void WorkerCore::send(Effects& out, Endpoint to, Message body) const {
  out.send.push_back({options_.self, to, membership_.generation, std::move(body)});
}

}  // namespace troupe::ps
