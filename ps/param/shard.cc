#include <troupe/ps/param/shard.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/param/combined_push.h>
#include <troupe/ps/param/consistency.h>
#include <troupe/ps/param/holdings.h>
#include <troupe/ps/param/layer_counts.h>
#include <troupe/ps/param/recorded_order.h>
#include <troupe/ps/param/request_check.h>
#include <troupe/ps/param/rows.h>
#include <troupe/ps/param/shard_device.h>
#include <troupe/ps/param/step_norm.h>

// The shard:
//
//   +-------+  first Membership: store opened,   +---------+ <-+ newer Membership: adopted
//   | empty |  its events replayed               | serving |   | Push, Pull, Verdict, Snapshot,
//   +-------+ ---------------------------------> +---------+ --+ Install, StatsRequest: answered
//       |     a Membership with another incarnation   |
//       |     in this slot, or the store was taken    v
//       |                                        +--------+
//       +--------------------------------------> | fenced |  says nothing, for ever
//                                                +--------+
//   empty refuses everything (stale_generation).
//
// A push, one after the other:
//
//   generation -> incarnation -> form -> sequence and contribution (taken before: acknowledged again)
//     -> stored -> sequence taken, clock advanced -> acknowledged -> aggregated or applied -> waiting pulls
//
// A sync parcel at version t:
//
//   collecting --- every present worker's push of t ---> complete --- optimizer step ---> version t + 1
//                                                           |              ^
//                    all sync parcels here complete: Partial +-- Verdict ---+   (only where verdicts are wanted)
//
// What changes the state is in the store before it does so: Membership, Push, Verdict, Install, and Pull where
// the weight of a push depends on when its parameters were read. So replaying the store gives this state again,
// through this code.
namespace troupe::ps {
namespace {

// A worker's step may be this far ahead of its clock (it joined late); more is a broken peer.
constexpr Step kMaxStepsAhead = 1'000'000;

// A worker has one push a parcel under way and is at most a step ahead with the others (the next step of a parcel is
// pulled behind its push), so that its sequences span twice the parcels, however long one of them is overtaken; a stage
// of an asynchronous pipeline is at most as many steps ahead as there are stages. Twice that is room enough; the least
// keeps small layouts simple to test.
constexpr Sequence kLeastWindow = 64;
Sequence window_width(size_t parcels, const Layout& layout) {
  return std::max<Sequence>(kLeastWindow, 2 * (uint64_t{layout.stages} + 1) * parcels);
}

}  // namespace

struct Shard::Impl : Holdings {
  ShardOptions options;
  std::shared_ptr<ShardStore> store;
  InitialState initial;
  std::function<void(const Event&)> observer;
  RecordedOrder order;

  bool store_open = false, replaying_store = false, serving = false, fenced = false;
  bool from_image = false;  // what the store holds is older
  Membership membership;    // the newest that was adopted
  Generation generation = 0;
  std::optional<Partial> partial;  // sent; its verdict is awaited
  std::optional<uint64_t> snapshot_wanted;  // its round

  LayerCounts counts;
  int64_t duplicates_dropped = 0, refused = 0, skipped_steps = 0;
  Outbox out;

  // ---- what is said ---------------------------------------------------------------------------------------------

  void send(const Endpoint& to, Message body) { out.push_back({options.self, to, generation, std::move(body)}); }

  void send_fault(const std::string& what) { send(options.coordinator, Fault{cat(options.self, ": ", what)}); }

  void refuse(const Envelope& e, Refused::Reason reason, std::string detail) {
    Refused refusal{reason, std::move(detail)};
    if (const auto* push = std::get_if<Push>(&e.body))
      refusal.sequence = push->sequence, refusal.parcel = push->parcel, refusal.step = push->step;
    if (const auto* pull = std::get_if<Pull>(&e.body)) refusal.parcel = pull->parcel, refusal.step = pull->step;
    ++refused;
    send(e.from, std::move(refusal));
  }

  void acknowledge(const Envelope& e, const Push& push) {
    send(e.from, PushAck{push.sequence, push.parcel, push.step});
  }

  // True once the event is in the store: only then may it have an effect.
  bool promise(Generation by, const Envelope& event) {
    if (replaying_store) return true;
    const Status stored = store->append(by, event);
    if (stored) return true;
    if (stored.error().kind == ErrorKind::cancelled)
      fenced = true;
    else
      send_fault(cat(name_of(event.body), " could not be stored: ", stored.error().message));
    return false;
  }

  void happened(const Event& event) {
    order.happened(event);
    if (observer && !replaying_store) observer(event);
  }

  void wait_for_device() const {
    if (!options.device) return;
    if (const Status status = options.device->wait(); !status)
      throw std::runtime_error(cat(options.self, ": ", status.error().message));
  }

  // ---- what comes in --------------------------------------------------------------------------------------------

  void receive(const Envelope& e) {
    if (const auto* membership = std::get_if<Membership>(&e.body)) return on_membership(e, *membership);
    if (!serving || e.generation != generation) return on_other_generation(e);
    dispatch(e);
    while (!fenced) {
      const auto ready = order.take_ready();
      if (!ready) break;
      dispatch(*ready);
    }
    if (snapshot_wanted && !in_a_step()) give_snapshot();
  }

  void dispatch(const Envelope& e) {
    const bool worker = e.from.role == Role::worker, coordinator = e.from.role == Role::coordinator;
    if (const auto* push = std::get_if<Push>(&e.body); push && worker) return on_push(e, *push);
    if (const auto* pull = std::get_if<Pull>(&e.body); pull && worker) return on_pull(e, *pull);
    if (const auto* install = std::get_if<Install>(&e.body); install && worker) return on_install(e, *install);
    if (const auto* verdict = std::get_if<Verdict>(&e.body); verdict && coordinator) return on_verdict(e, *verdict);
    if (const auto* wanted = std::get_if<Snapshot>(&e.body); wanted && coordinator) return on_snapshot(e, *wanted);
    if (const auto* wanted = std::get_if<StatsRequest>(&e.body); wanted && coordinator) return on_stats(e, *wanted);
  }

  // A newer generation as well: its Membership has not come yet, and decides what this message means.
  void on_other_generation(const Envelope& e) {
    if (std::holds_alternative<Push>(e.body) || std::holds_alternative<Pull>(e.body) ||
        std::holds_alternative<Install>(e.body) || std::holds_alternative<Snapshot>(e.body))
      refuse(e, Refused::Reason::stale_generation,
             serving ? cat("generation ", e.generation, "; this is ", generation) : "no membership has come yet");
  }

  bool sender_is_current(const Envelope& e) {
    const auto [role, index, incarnation] = e.from;
    if (index < workers.size() && incarnation != 0 && workers[index].incarnation == incarnation) return true;
    refuse(e, Refused::Reason::stale_incarnation, cat(e.from, " is not in generation ", generation));
    return false;
  }

  // ---- membership -----------------------------------------------------------------------------------------------

  void on_membership(const Envelope& e, const Membership& m) {
    if (e.from.role != Role::coordinator || m.generation < generation) return;
    if (serving && m.generation == generation) return send(e.from, MembershipAck{});
    const Incarnation here = options.self.index < m.servers.size() ? m.servers[options.self.index] : 0;
    if (here != 0 && here < options.self.incarnation) return;  // overtaken by the start of this actor
    if (here != options.self.incarnation) return void(fenced = true);
    if (const Status ok = check_membership(m); !ok) return send_fault(ok.error().message);
    if (std::ranges::any_of(m.layout->layers, [](const LayerSpec& layer) { return by_rows(layer); }))
      if (const Status ok = options.optimizer->check_rows(); !ok) return send_fault(ok.error().message);
    if (!store_open && !open_store(m.generation)) return;
    if (!layout && !m.rebase && options.self.incarnation > 1)
      return send_fault("its store is empty though the run is under way: the log is on another host or was removed; "
                        "resume from the last checkpoint (--resume)");
    if (const Status ok = check_change(m); !ok) return send_fault(ok.error().message);
    const bool known = !serving && layout && m.generation == generation;  // from the image
    if (!known && !promise(m.generation, e)) return;
    if (!known) adopt(m);
    serving = true;
    send(e.from, MembershipAck{});
    if (partial) send(options.coordinator, *partial);
    settle_all();
  }

  void adopt(const Membership& m) {
    membership = m;
    generation = m.generation;
    if (m.rebase) partial.reset();
    take_over(m, options, initial);
  }

  // ---- the store and images -------------------------------------------------------------------------------------

  bool open_store(Generation by) {
    if (!from_image) forget();  // what an attempt that failed brought back
    Status followed;
    Status status = store->open(by, [&](const Envelope& event) {
      if (!from_image && followed) followed = follow(event);
    });
    if (status && !followed) status = followed;
    if (status && from_image) status = store->compact(by, std::make_shared<ShardImage>(image()));
    store_open = status.has_value();
    if (!store_open) store_failed("open", status.error());
    return store_open;
  }

  void store_failed(const char* what, const Error& why) {
    if (why.kind == ErrorKind::cancelled)
      fenced = true;
    else
      send_fault(cat("the store does not ", what, ": ", why.message));
  }

  void keep_store_small() {
    if (fenced || !serving || !store->wants_image()) return;
    if (const Status status = store->compact(generation, std::make_shared<ShardImage>(image())); !status)
      store_failed("shrink", status.error());
  }

  // An event that a shard in this state took: it is taken again, without a word.
  Status follow(const Envelope& event) {
    replaying_store = true;
    Status status;
    if (const auto* replicate = std::get_if<Replicate>(&event.body)) {
      status = replicate->image ? go_on_from(*replicate->image) : fail(ErrorKind::invalid, "an image is missing");
    } else if (const auto* m = std::get_if<Membership>(&event.body)) {
      if (status = check_membership(*m); status) adopt(*m), settle_all();
    } else {
      const int64_t refused_before = refused;
      if (layout) dispatch(event);
      if (!layout || refused != refused_before)
        status = fail(ErrorKind::corrupt, cat(name_of(event.body), " of ", event.from, ", generation ",
                                              event.generation, ", does not follow from what came before it"));
    }
    replaying_store = false;
    out.clear();
    return status;
  }

  void forget() {
    static_cast<Holdings&>(*this) = {};
    membership = {};
    generation = 0;
    partial.reset();
    counts = {};
    duplicates_dropped = refused = skipped_steps = 0;
  }

  ShardImage image() const {
    ShardImage all;
    all.membership = membership;
    put_into(all);
    wait_for_device();
    all.partial = partial;
    all.counters = counts.all();
    all.duplicates_dropped = duplicates_dropped;
    all.refused = refused;
    all.skipped_steps = skipped_steps;
    return all;
  }

  Status go_on_from(const ShardImage& image) {
    TROUPE_TRY(check_image(image, options.self.index, options.optimizer->state_names().size()));
    Holdings::go_on_from(image, options);
    membership = image.membership;
    generation = membership.generation;
    partial = image.partial;
    counts = LayerCounts(image.counters);
    duplicates_dropped = image.duplicates_dropped;
    refused = image.refused;
    skipped_steps = image.skipped_steps;
    return {};
  }

  // ---- pushes ---------------------------------------------------------------------------------------------------

  void on_push(const Envelope& e, const Push& push) {
    if (!sender_is_current(e)) return;
    const auto refuse_malformed = [&](std::string why) { refuse(e, Refused::Reason::malformed, std::move(why)); };
    if (const Status ok = check_push(push, *layout, options.self.index); !ok)
      return refuse_malformed(ok.error().message);
    const WorkerId worker = e.from.index;
    if (!layout->contributes(worker, layout->parcels[push.parcel]))
      return refuse_malformed(cat("parcel ", push.parcel, " is of stage ",
                                  layout->stage_of_parcel(layout->parcels[push.parcel]), " of ", layout->stages,
                                  ", worker ", worker, " is not"));
    const HeldParcel& p = parcels.at(push.parcel);
    const Step owed = p.clock.at(worker);
    const bool taken = workers[worker].window.taken(push.sequence);
    if (push.step < owed) return on_repeated(e, push, taken);
    if (taken) return refuse_malformed(cat("sequence ", push.sequence, " was another push"));
    const Policy& policy = layout->parcels[push.parcel].policy;
    if (policy.aggregates() ? push.step != p.version : push.step - owed > kMaxStepsAhead)
      return refuse_malformed(
          cat("step ", push.step, " of parcel ", push.parcel, " at version ", p.version, ", clock ", owed));
    for (const WorkerId other : covered(push))
      if (other == worker || !policy.aggregates() || other >= workers.size() || !p.clock.present(other) ||
          p.clock.at(other) != push.step)
        return refuse_malformed(cat("it covers worker ", other, ", who does not owe step ", push.step));
    const Event event{Event::Kind::push, worker, push.parcel, push.step};
    if (policy.immediate() && !replaying_store && order.must_wait(event)) return order.hold(event, e);
    if (promise(generation, e)) take(e, push);
  }

  std::vector<WorkerId> covered(const Push& push) const {
    return covered_by(push, layout->parcels[push.parcel].slices.size());
  }

  // This step of the worker has been counted: the same push again, that of a covered worker, the step of a restarted
  // one, or one that was lost with the server before this one. A sequence that is new is taken, in the store too.
  void on_repeated(const Envelope& e, const Push& push, bool taken) {
    if (!taken) {
      Push bare = push;
      bare.samples = 0;
      bare.gradients.clear();
      bare.rows = {};
      if (!promise(generation, {e.from, e.to, e.generation, std::move(bare)})) return;
      workers[e.from.index].window.take(push.sequence, window_width(parcels.size(), *layout));
    }
    const bool covered_before = !taken && push.samples == 0;
    if (!covered_before) ++duplicates_dropped;
    acknowledge(e, push);
  }

  void take(const Envelope& e, const Push& push) {
    const WorkerId worker = e.from.index;
    HeldParcel& p = parcels.at(push.parcel);
    workers[worker].window.take(push.sequence, window_width(parcels.size(), *layout));
    const Step slowest = p.clock.slowest();
    p.clock.advance(worker, push.step + 1);
    acknowledge(e, push);
    if (layout->parcels[push.parcel].policy.aggregates()) {
      counts.pushed(*layout, push, std::nullopt);
      const auto gradients = gradients_of(push, layout->parcels[push.parcel].slices.size());
      std::vector<Tensor> kept(gradients.begin(), gradients.end());
      p.pending[worker] = {push.samples, push.schedule_step, std::move(kept), push.finite, push.rows};
      for (const WorkerId other : covered(push)) {
        p.clock.advance(other, push.step + 1);
        p.pending[other] = {0, push.schedule_step, {}, true, {}};
      }
      settle(push.parcel, p);
    } else {
      apply_at_once(worker, push, p);
      happened({Event::Kind::push, worker, push.parcel, push.step});
      if (p.clock.slowest() != slowest) answer_waiting(push.parcel, p);
    }
  }

  // ---- immediate updates ----------------------------------------------------------------------------------------

  void apply_at_once(WorkerId worker, const Push& push, HeldParcel& p) {
    const int64_t seen = p.reads[worker].updates;
    const int64_t delay = seen < 0 ? 0 : p.updates - seen;
    counts.pushed(*layout, push, delay);
    if (!push.finite) ++skipped_steps;
    if (push.samples == 0 || !push.finite) return;
    SliceUpdate step;
    step.gradient_scale = 1 / static_cast<double>(push.samples);
    step.clip_scale = push.scale;
    step.rate_scale = rate_scale(push.samples, delay);
    step.schedule_step = push.schedule_step;
    const auto& ids = layout->parcels[push.parcel].slices;
    if (push.rows)
      slices.at(ids.front())
          .apply_rows(*options.optimizer, step, {push.rows.span<int32_t>(), push.gradients.front().span<float>()});
    for (size_t i = 0; i < ids.size() && !push.rows; ++i) {
      slices.at(ids[i]).apply(*options.optimizer, step, {&push.gradients[i], 1});
    }
    ++p.updates;
    counts.updated(*layout, push.parcel);
  }

  double rate_scale(int64_t samples, int64_t delay) const {
    switch (options.scale) {
      case ImmediateScale::none: return 1;
      case ImmediateScale::samples: return static_cast<double>(samples) / static_cast<double>(options.global_batch);
      case ImmediateScale::staleness: return 1 / (1 + static_cast<double>(delay));
    }
    return 1;
  }

  // ---- synchronous updates --------------------------------------------------------------------------------------

  bool is_sync(ParcelId id) const { return layout->parcels[id].policy.aggregates(); }
  bool is_by_rows(ParcelId id) const { return by_rows(*layout, layout->parcels[id]); }

  void settle_all() {
    for (auto& [id, p] : parcels) {
      if (is_sync(id)) settle(id, p);
      answer_waiting(id, p);
    }
  }

  void settle(ParcelId id, HeldParcel& p) {
    if (!p.complete()) return;
    if (!options.needs_verdict) return finish_step(id, p, {});
    if (partial) return;
    for (const auto& [other, q] : parcels)
      if (is_sync(other) && (!q.complete() || q.version != p.version)) return;
    partial = measure_step(p.version);
    send(options.coordinator, *partial);
  }

  std::vector<GradientPart> parts_of(const HeldParcel& p, size_t slice) const {
    std::vector<GradientPart> parts;
    for (const auto& [worker, c] : p.pending)
      if (c.samples > 0) parts.push_back({worker, c.gradients[slice].span<float>()});
    return parts;
  }

  Partial measure_step(Step step) const {
    Partial result{step};
    const auto blame = [&](std::string who) {
      if (result.finite) result.culprit = std::move(who);
      result.finite = false;
    };
    std::optional<WorkerId> flagged;
    for (const auto& [slice_id, slice] : slices) {  // in slice order, whatever parcels they travel in
      const auto [id, index] = places.at(slice_id);
      if (!is_sync(id)) continue;
      const HeldParcel& p = parcels.at(id);
      const int64_t total = p.samples();
      const double scale = total ? 1 / static_cast<double>(total) : 0;
      const SliceNorm norm =
          slice.row_width() > 0
              ? measure_rows(p.row_parts(), slice.row_width(), slice.segments().front().kind, scale)
              : measure(parts_of(p, index), slice.segments(), scale);
      result.sum_of_squares += norm.sum_of_squares;
      if (!norm.finite) blame(cat("layer ", layout->layers[slice.slice().layer].name, ", worker ", norm.culprit));
      for (const auto& [worker, c] : p.pending)
        if (!c.finite && !flagged) flagged = worker;
    }
    if (flagged) blame(cat("worker ", *flagged));
    return result;
  }

  void on_verdict(const Envelope& e, const Verdict& verdict) {
    if (!partial || partial->step != verdict.step) return;
    if (!std::isfinite(verdict.scale) || verdict.scale < 0) return;
    if (!promise(generation, e)) return;
    partial.reset();
    if (verdict.skip) ++skipped_steps;
    for (auto& [id, p] : parcels)
      if (is_sync(id)) finish_step(id, p, verdict);
  }

  // The mean over the step's samples, summed in worker order, in one optimizer step.
  void finish_step(ParcelId id, HeldParcel& p, const Verdict& verdict) {
    const int64_t total = p.samples();
    const bool update = total > 0 && !verdict.skip;
    SliceUpdate step;
    step.gradient_scale = update ? 1 / static_cast<double>(total) : 0;
    step.clip_scale = verdict.scale;
    for (const auto& [worker, c] : p.pending) step.schedule_step = std::max(step.schedule_step, c.schedule_step);
    if (is_by_rows(id))
      update_by_rows(id, p, step, update);
    else
      update_all(id, p, step, update);
    if (update) ++p.updates, counts.updated(*layout, id);
    p.pending.clear();
    ++p.version;
    answer_waiting(id, p);
  }

  void update_by_rows(ParcelId id, HeldParcel& p, const SliceUpdate& step, bool update) {
    HeldSlice& slice = slices.at(layout->parcels[id].slices.front());
    const RowParts parts = update ? p.row_parts() : RowParts{};
    const RowSum sum(parts.values, slice.row_width());
    const std::span<const int32_t> rows = sum.get().rows;
    p.previous.clear();
    p.before = {Tensor::from(rows, {static_cast<int64_t>(rows.size())}),
                gather_rows(slice.values(), slice.first_row(), rows, slice.row_width())};
    if (update) slice.apply_rows(*options.optimizer, step, sum.get());
  }

  void update_all(ParcelId id, HeldParcel& p, SliceUpdate step, bool update) {
    std::vector<Tensor> before_last = std::exchange(p.previous, {});
    const auto& ids = layout->parcels[id].slices;
    before_last.resize(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      HeldSlice& slice = slices.at(ids[i]);
      p.previous.push_back(slice.values());
      if (!update) continue;
      std::vector<Tensor> gradients;
      for (const auto& [worker, c] : p.pending)
        if (c.samples > 0) gradients.push_back(c.gradients[i]);
      slice.apply(*options.optimizer, step, gradients, std::move(before_last[i]));
    }
  }

  // ---- pulls ----------------------------------------------------------------------------------------------------

  void on_pull(const Envelope& e, const Pull& pull) {
    if (!sender_is_current(e)) return;
    if (const Status ok = check_pull(pull, *layout, options.self.index); !ok)
      return refuse(e, Refused::Reason::malformed, ok.error().message);
    const WorkerId worker = e.from.index;
    HeldParcel& p = parcels.at(pull.parcel);
    const Policy& policy = layout->parcels[pull.parcel].policy;
    const Step oldest = p.version - (p.remembers() ? 1 : 0);
    // What a restarted worker repeats of a step that counts already has no effect, so any version will do.
    if (policy.aggregates() && pull.step < oldest && pull.step >= p.clock.at(worker))
      return refuse(e, Refused::Reason::malformed,
                    cat("parcel ", pull.parcel, " is at version ", p.version, "; step ", pull.step, " is gone"));
    if (pull.step - p.clock.at(worker) > kMaxStepsAhead && policy.mode != Mode::all_reduce)
      return refuse(e, Refused::Reason::malformed, cat("step ", pull.step, ", clock ", p.clock.at(worker)));
    const Event event{Event::Kind::pull, worker, pull.parcel, pull.step};
    if (policy.immediate() && !replaying_store && order.must_wait(event)) return order.hold(event, e);
    if (may_read(policy, pull.step, p.version, p.clock)) return answer(e, pull, p);
    const auto waiting = p.waiting.try_emplace(worker, e).first;
    const Pull& before = std::get<Pull>(waiting->second.body);
    if (std::pair(before.step, before.ticket) < std::pair(pull.step, pull.ticket)) waiting->second = e;
  }

  void answer(const Envelope& e, const Pull& pull, HeldParcel& p) {
    const Policy& policy = layout->parcels[pull.parcel].policy;
    if (policy.immediate() && options.scale == ImmediateScale::staleness && !promise(generation, e)) return;
    PullReply reply{pull.parcel, pull.step, pull.ticket};
    reply.lag = lag(policy, pull.step, p.version, p.clock);
    const bool one_back = policy.aggregates() && pull.step < p.version && p.remembers();
    const auto& ids = layout->parcels[pull.parcel].slices;
    if (is_by_rows(pull.parcel)) reply.values.push_back(rows_for(pull, p, one_back));
    for (size_t i = reply.values.size(); i < ids.size(); ++i) {
      const HeldSlice& slice = slices.at(ids[i]);
      reply.values.push_back(one_back ? p.previous[i] : slice.values());
      if (policy.mode == Mode::all_reduce) reply.state.push_back(slice.state());
    }
    counts.pulled(*layout, pull, reply);
    note_read(e.from.index, pull, p, reply.lag);
    send(e.from, std::move(reply));
  }

  // What a pull of a parcel by rows asks for: of the newest version, or of the one before it.
  Tensor rows_for(const Pull& pull, const HeldParcel& p, bool one_back) const {
    const HeldSlice& slice = slices.at(layout->parcels[pull.parcel].slices.front());
    const bool kept_whole = one_back && !p.before;
    const Tensor& table = kept_whole ? p.previous.front() : slice.values();
    if (!pull.rows && (!one_back || kept_whole)) return table;
    std::vector<int32_t> all;
    if (!pull.rows) {
      all.resize(static_cast<size_t>(slice.slice().count() / slice.row_width()));
      std::iota(all.begin(), all.end(), slice.first_row());
    }
    const std::span<const int32_t> rows = pull.rows ? pull.rows.span<int32_t>() : std::span<const int32_t>(all);
    Tensor values = gather_rows(table, slice.first_row(), rows, slice.row_width());
    if (one_back && p.before)
      overlay_rows({p.before->rows.span<int32_t>(), std::as_const(p.before->values).span<float>()}, rows,
                   values.span<float>(), slice.row_width());
    return values;
  }

  void note_read(WorkerId worker, const Pull& pull, HeldParcel& p, int64_t lag) {
    HeldParcel::Read& read = p.reads[worker];
    if (pull.step < read.step) return;
    const bool first = pull.step > read.step;
    read = {pull.step, p.updates};
    if (!first) return;
    counts.read(*layout, pull.parcel, lag);
    if (layout->parcels[pull.parcel].policy.immediate()) happened({Event::Kind::pull, worker, pull.parcel, pull.step});
  }

  void answer_waiting(ParcelId id, HeldParcel& p) {
    const Policy& policy = layout->parcels[id].policy;
    for (auto it = p.waiting.begin(); it != p.waiting.end() && !fenced;) {
      const Pull pull = std::get<Pull>(it->second.body);
      if (may_read(policy, pull.step, p.version, p.clock)) {
        const Envelope e = std::move(it->second);
        it = p.waiting.erase(it);
        answer(e, pull, p);
      } else {
        ++it;
      }
    }
  }

  // ---- homes, snapshots, counters -------------------------------------------------------------------------------

  void on_install(const Envelope& e, const Install& install) {
    if (!sender_is_current(e)) return;
    const size_t states = options.optimizer->state_names().size();
    if (const Status ok = check_install(install, *layout, options.self.index, states); !ok)
      return refuse(e, Refused::Reason::malformed, ok.error().message);
    WorkerSlot& slot = workers[e.from.index];
    if (install.round >= slot.install_round) {  // an older one is a late copy, overtaken by what came after
      if (!promise(generation, e)) return;
      slot.install_round = install.round;
      for (const SliceState& s : install.slices) slices.at(s.slice).install(s);
    }
    send(e.from, InstallAck{install.round});
  }

  // Every push of a step may be acknowledged while its verdict is still on its way: then the snapshot waits.
  void on_snapshot(const Envelope&, const Snapshot& wanted) { snapshot_wanted = wanted.round; }

  bool in_a_step() const {
    return std::ranges::any_of(parcels, [](const auto& held) { return !held.second.pending.empty(); });
  }

  void give_snapshot() { send(options.coordinator, SnapshotReply{*std::exchange(snapshot_wanted, {}), state()}); }

  void on_stats(const Envelope& e, const StatsRequest& wanted) {
    send(e.from, StatsReply{wanted.round, counts.all(), duplicates_dropped, refused, skipped_steps});
  }
};

Shard::Shard(ShardOptions options, std::shared_ptr<ShardStore> store, InitialState initial)
    : impl_(std::make_unique<Impl>()) {
  TROUPE_CHECK(options.optimizer && store && initial && options.global_batch > 0, "global batch ",
               options.global_batch);
  impl_->options = std::move(options);
  impl_->store = std::move(store);
  impl_->initial = std::move(initial);
}

Shard::~Shard() = default;

Result<std::unique_ptr<Shard>> Shard::make_from(const ShardImage& image, ShardOptions options,
                                                std::shared_ptr<ShardStore> store, InitialState initial) {
  auto shard = std::make_unique<Shard>(std::move(options), std::move(store), std::move(initial));
  shard->impl_->from_image = true;
  TROUPE_TRY(shard->impl_->go_on_from(image));
  return shard;
}

Status Shard::follow(const Envelope& event) { return impl_->follow(event); }

ShardImage Shard::image() const {
  TROUPE_CHECK(impl_->layout, impl_->options.self, " holds nothing yet");
  return impl_->image();
}

Outbox Shard::handle(const Envelope& envelope) {
  if (impl_->fenced) return {};
  impl_->receive(envelope);
  impl_->keep_store_small();
  Outbox out = std::exchange(impl_->out, {});
  if (impl_->fenced) out.clear();
  return out;
}

Outbox Shard::tick() const {
  if (impl_->fenced || !impl_->partial) return {};
  return {{impl_->options.self, impl_->options.coordinator, impl_->generation, *impl_->partial}};
}

bool Shard::fenced() const { return impl_->fenced; }

void Shard::on_event(std::function<void(const Event&)> observer) { impl_->observer = std::move(observer); }

void Shard::replay(std::vector<Event> order) { impl_->order.start(std::move(order)); }

std::vector<SliceState> Shard::state() const {
  auto all = impl_->state();
  impl_->wait_for_device();
  return all;
}

}  // namespace troupe::ps
