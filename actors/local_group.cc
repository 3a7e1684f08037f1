#include <troupe/actors/local_group.h>

#include <algorithm>
#include <utility>

#include <troupe/actors/local_update.h>
#include <troupe/actors/measure.h>
#include <troupe/kernels/collective/rank_sum.h>

namespace troupe {
namespace {

// A tile's part of parameters, state and gradients stays in the second-level cache; there are enough tiles for
// all threads to end together.
constexpr int64_t kTileElements = 16 << 10;

std::string describe(const ps::Bucket& bucket, bool summed) {
  std::string text = summed ? "the update of step " : "a bucket of step ";
  text += cat(bucket.empty() ? -1 : bucket.front().step, " with");
  for (const ps::Reduce& task : bucket) text += cat(" layer ", task.layer, " (", task.gradient.count(), " elements)");
  return text;
}

}  // namespace

/// What one worker asks for: to sum a bucket, or to update a layer by a sum that all have.
struct LocalGroup::Call {
  ps::Bucket bucket;
  bool summed = false;
  Reducer::Report report;

  bool same(const Call& other) const {
    return summed == other.summed &&
           std::ranges::equal(bucket, other.bucket, [](const ps::Reduce& a, const ps::Reduce& b) {
             return a.step == b.step && a.layer == b.layer && a.gradient.count() == b.gradient.count();
           });
  }
};

/// The calls that meet, and what becomes of them.
struct LocalGroup::Round {
  struct Tile {
    size_t task = 0;  ///< of the bucket
    int64_t begin = 0, end = 0;
  };

  const LocalGroupOptions& options;
  std::vector<std::optional<Call>> calls;  ///< by rank
  size_t arrived = 0;
  std::vector<std::vector<Tensor>> gradients;  ///< by task of the bucket, then by rank
  std::vector<Tensor> results;                 ///< by task: sums, or new parameters
  std::vector<Tile> tiles;

  explicit Round(const LocalGroupOptions& o) : options(o), calls(o.workers) {}

  const ps::Bucket& bucket() const { return calls[0]->bucket; }
  const LayerSpec& layer(const ps::Reduce& task) const { return options.layers[task.layer]; }

  void prepare() {
    for (size_t t = 0; t < bucket().size(); ++t) {
      const int64_t count = bucket()[t].gradient.count();
      auto& brought = gradients.emplace_back();
      for (const auto& call : calls)
        if (brought.empty() || !call->summed) brought.push_back(call->bucket[t].gradient);
      results.push_back(Tensor::empty({count}));
      const int64_t most = options.optimizer->needs_whole_tensors() ? std::max<int64_t>(count, 1) : kTileElements;
      for (int64_t at = 0; at < count; at += most) tiles.push_back({t, at, std::min(at + most, count)});
    }
  }

  void run(const Tile& tile) {
    const ps::Reduce& task = bucket()[tile.task];
    const auto& brought = std::as_const(gradients[tile.task]);
    Tensor& result = results[tile.task];
    if (task.apply)
      return update_range(*options.optimizer, layer(task), *task.apply, brought, tile.begin, tile.end, result);
    sum_in_rank_order(brought, tile.begin, tile.end, result);
  }

  void report(const TaskDone& done) const {
    for (const auto& call : calls)
      if (call) call->report(done);
  }

  void finish(const Status& status) {
    if (!status) return report(TaskFailed{status.error().message});
    ApplyDone applied{bucket().front().step, {}};
    for (size_t t = 0; t < bucket().size(); ++t) {
      const ps::Reduce& task = bucket()[t];
      if (task.apply) {
        applied.layers.emplace_back(task.layer, after_update(*task.apply, results[t]));
        continue;
      }
      Stream stream;
      const auto [squares, finite] = measure(stream, ops::cpu_ops(), layer(task), results[t], options.norm);
      report(ReduceDone{task.step, task.layer, results[t], squares, finite});
    }
    if (!applied.layers.empty()) report(std::move(applied));
  }
};

class LocalGroup::Member final : public Reducer {
 public:
  Member(std::shared_ptr<LocalGroup> group, size_t rank) : group_(std::move(group)), rank_(rank) {}
  ~Member() override { group_->leave(rank_); }

  void reduce(ps::Bucket bucket, Report report) override {
    group_->take(rank_, {std::move(bucket), false, std::move(report)});
  }
  void apply(ps::ApplyLocal task, Report report) override {
    ps::Reduce one{task.step, task.layer, task.gradient, std::move(task)};
    group_->take(rank_, {{std::move(one)}, true, std::move(report)});
  }
  void abort(const std::string&) override { group_->leave(rank_); }

 private:
  const std::shared_ptr<LocalGroup> group_;
  const size_t rank_;
};

LocalGroup::LocalGroup(LocalGroupOptions options)
    : options_(std::move(options)), seats_(options_.workers), helpers_(options_.helpers) {}

std::shared_ptr<Reducer> LocalGroup::join(size_t rank, std::shared_ptr<Executor> compute, Track track) {
  std::lock_guard lock(mutex_);
  TROUPE_CHECK(!over_ && rank < seats_.size() && !seats_[rank].compute, "worker ", rank, " has left its group");
  seats_[rank].compute = std::move(compute);
  seats_[rank].track = std::move(track);
  return std::make_shared<Member>(shared_from_this(), rank);
}

void LocalGroup::take(size_t rank, Call call) {
  std::shared_ptr<Round> round;
  std::string mistake;
  {
    std::lock_guard lock(mutex_);
    if (over_) return;
    const uint64_t number = seats_[rank].next++;
    auto& open = rounds_[number];
    if (!open) open = std::make_shared<Round>(options_);
    round = open;
    for (size_t other = 0; other < round->calls.size(); ++other)
      if (const auto& theirs = round->calls[other]; theirs && !theirs->same(call)) {
        mistake = cat("worker ", rank, " reduces ", describe(call.bucket, call.summed), " where worker ", other,
                      " reduces ", describe(theirs->bucket, theirs->summed),
                      "; all workers of a group must have the same layers in the same gradient order");
        break;
      }
    round->calls[rank] = std::move(call);
    if (mistake.empty()) {
      if (++round->arrived < seats_.size()) return;
      rounds_.erase(number);
    }
  }
  if (mistake.empty()) return begin(std::move(round));
  fail_group(mistake);
}

void LocalGroup::begin(std::shared_ptr<Round> round) {
  round->prepare();
  const ps::Reduce& first = round->bucket().front();
  if (round->tiles.empty()) return round->finish({});
  SharedJob job;
  job.tiles = static_cast<int64_t>(round->tiles.size());
  job.run = [round](int64_t tile) { round->run(round->tiles[static_cast<size_t>(tile)]); };
  job.done = [round](const Status& status) { round->finish(status); };
  job.name = round->calls[0]->summed ? "apply" : "reduce";
  job.step = first.step;
  job.what = {"layer", first.layer};
  share_.add(std::move(job));
  wake();
}

// Everybody, once he has nothing to compute. Who computes first leaves more of the tiles to who waits for them, so that
// workers that have drifted apart come together again; where the one that was behind had to do them before its next
// forward pass, it fell behind further, and the other waited for it in every step.
void LocalGroup::wake() {
  std::lock_guard lock(mutex_);
  const auto call = [this](Executor& queue, auto&& begun, const Track& track) {
    queue.submit_idle([self = shared_from_this(), begun, track] {
      {
        std::lock_guard lock(self->mutex_);
        begun(*self);
      }
      self->share_.help(track);
    });
  };
  for (size_t rank = 0; rank < seats_.size(); ++rank) {
    Seat& seat = seats_[rank];
    if (!seat.compute || std::exchange(seat.called, true)) continue;
    call(*seat.compute, [rank](LocalGroup& group) { group.seats_[rank].called = false; }, seat.track);
  }
  for (size_t h = 0; h < helpers_.size() && !over_; ++h) {
    Helper& helper = helpers_[h];
    if (std::exchange(helper.called, true)) continue;
    if (!helper.queue) helper.queue = options_.make_helper(h);
    call(*helper.queue, [h](LocalGroup& group) { group.helpers_[h].called = false; },
         options_.helper_tracks.empty() ? Track{} : options_.helper_tracks[h]);
  }
}

void LocalGroup::fail_group(const std::string& reason) {
  std::map<uint64_t, std::shared_ptr<Round>> open;
  {
    std::lock_guard lock(mutex_);
    over_ = true;
    open.swap(rounds_);
  }
  for (const auto& [number, round] : open) round->report(TaskFailed{reason});
}

// A step cannot do without anybody: what waits for this worker is given up, and the coordinator hears of it alone.
// Helpers are dropped here, where a worker ends: with the group itself they could go on a helper's own thread, after
// the actors' system.
void LocalGroup::leave(size_t rank) {
  std::shared_ptr<Executor> compute;
  std::vector<std::shared_ptr<Executor>> helpers;
  std::map<uint64_t, std::shared_ptr<Round>> open;
  std::lock_guard lock(mutex_);
  over_ = true;
  compute.swap(seats_[rank].compute);
  for (Helper& helper : helpers_) helpers.push_back(std::move(helper.queue));
  open.swap(rounds_);
}

}  // namespace troupe
