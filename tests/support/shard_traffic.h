#pragma once
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include <troupe/kernels/base/random.h>

#include <tests/support/shard_world.h>

namespace troupe::ps::test {

/// Random envelopes for the shard of a world: pushes in and out of order, doubled and late ones, reads, verdicts,
/// homes, snapshots, counters, workers that come, go and start again, policies that change. Whoever takes an envelope
/// from `next` hands it to the world's shard and tells `answered` what it said.
class ShardTraffic {
 public:
  ShardTraffic(ShardWorld& world, Random& random) : world_(world), random_(random) {
    steps_.resize(world.workers.size(), std::vector<Step>(world.layout->parcels.size(), 0));
  }

  Envelope next() {
    const uint64_t kind = random_.below(100);
    if (kind < 45) return remember(push());
    if (kind < 70) return pull();
    if (kind < 80 && !past_.empty()) return past_[random_.below(past_.size())];
    if (kind < 88) return world_.from_coordinator(Verdict{verdict_step_, random_.chance(0.2), 0.5});
    if (kind < 91) return world_.from_coordinator(Snapshot{++round_});
    if (kind < 93) return world_.from_coordinator(StatsRequest{++round_});
    if (kind < 96) return install();
    return change();
  }

  void answered(const Envelope& envelope, const Outbox& out) {
    for (const auto& ack : only<PushAck>(out)) {
      Step& step = steps_[envelope.from.index][ack.parcel];
      step = std::max(step, ack.step + 1);
    }
    // A refused push used no sequence.
    for (const auto& refused : only<Refused>(out))
      if (refused.sequence != 0 && refused.sequence == world_.sent[envelope.from.index])
        --world_.sent[envelope.from.index];
    for (const auto& partial : only<Partial>(out)) verdict_step_ = partial.step;
  }

  /// The furthest read of everybody, which a worker repeats until it is answered.
  std::vector<Envelope> reads() const {
    std::vector<Envelope> all;
    for (const auto& [key, pull] : reads_) all.push_back(world_.from_worker(key.first, pull));
    return all;
  }

 private:
  WorkerId worker() {
    WorkerId w = 0;
    do w = static_cast<WorkerId>(random_.below(world_.workers.size()));
    while (world_.workers[w] == 0);
    return w;
  }
  ParcelId parcel() { return static_cast<ParcelId>(random_.below(world_.layout->parcels.size())); }

  Tensor numbers() {
    Tensor t = Tensor::empty(Shape{ShardWorld::kCount});
    for (float& x : t.span<float>()) x = static_cast<float>(random_.normal());
    return t;
  }

  // Of those that a layer has; none, or all, in places.
  Tensor some_rows() {
    std::vector<int32_t> rows;
    for (int32_t row = 0; row < ShardWorld::kCount / world_.width; ++row)
      if (random_.chance(0.4)) rows.push_back(row);
    return Tensor::from<int32_t>(rows, {static_cast<int64_t>(rows.size())});
  }

  Envelope remember(Envelope e) {
    past_.push_back(e);
    if (past_.size() > 12) past_.pop_front();
    return e;
  }

  Envelope push() {
    const WorkerId w = worker();
    const ParcelId p = parcel();
    const Step step = std::max<Step>(0, steps_[w][p] + (random_.chance(0.1) ? -1 : 0));
    if (random_.chance(0.05)) ++world_.sent[w];  // another push is on its way and comes later, or never
    Envelope e = world_.push_of(w, p, step, 0, random_.chance(0.1) ? 0 : 1 + static_cast<int64_t>(random_.below(4)));
    Push& body = std::get<Push>(e.body);
    for (Tensor& g : body.gradients) g = numbers();
    if (body.rows) {
      body.rows = some_rows();
      body.gradients = {numbers().view(0, {body.rows.count() * world_.width})};
    }
    body.finite = !random_.chance(0.05);
    return e;
  }

  Envelope pull() {
    const WorkerId w = worker();
    const ParcelId p = parcel();
    Pull body{p, steps_[w][p] + static_cast<Step>(random_.below(2)), ++ticket_, {}};
    if (world_.layout->layers[p].row_width > 0 && random_.chance(0.8)) body.rows = some_rows();
    if (Pull& newest = reads_[{w, p}]; body.step >= newest.step) newest = body;
    return world_.from_worker(w, body);
  }

  Envelope install() {
    Install body{++round_, {}};
    for (const Slice& s : world_.layout->slices) {
      if (world_.layout->policies[s.layer].mode != Mode::all_reduce) continue;
      SliceState state{s.id, numbers(), {}, static_cast<int64_t>(round_)};
      for (size_t i = 0; i < world_.options.optimizer->state_names().size(); ++i) state.state.push_back(numbers());
      body.slices.push_back(std::move(state));
    }
    return world_.from_worker(worker(), body);
  }

  Envelope change() {
    ++world_.generation;
    const auto w = static_cast<WorkerId>(random_.below(world_.workers.size()));
    if (random_.chance(0.2) && w != 0)  // leaves, for a while
      world_.workers[w] = 0;
    else
      world_.workers[w] = ++incarnation_;
    world_.sent[w] = 0;
    std::erase_if(reads_, [&](const auto& read) { return read.first.first == w; });
    return world_.membership();
  }

  ShardWorld& world_;
  Random& random_;
  std::vector<std::vector<Step>> steps_;  // that each worker owes, by parcel
  std::deque<Envelope> past_;
  std::map<std::pair<WorkerId, ParcelId>, Pull> reads_;
  Step verdict_step_ = 0;
  uint64_t ticket_ = 0, round_ = 0;
  Incarnation incarnation_ = 1;
};

}  // namespace troupe::ps::test
