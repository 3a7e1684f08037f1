#include <troupe/actors/host_reducer.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include <troupe/actors/measure.h>
#include <troupe/actors/packed_bucket.h>

namespace troupe {
namespace {

using Report = Reducer::Report;
using Group = std::shared_ptr<Communicator>;

constexpr int64_t kLineElements = 16;  // each rank's part of an all_gather (part_of)

/// The group that somebody may wait in, and how often one was left: from any thread.
class Exit {
 public:
  uint64_t times_left() const {
    std::lock_guard lock(mutex_);
    return left_;
  }
  /// False where it has been left since.
  bool enter(uint64_t left, Group group) {
    std::lock_guard lock(mutex_);
    if (left != left_) return false;
    group_ = std::move(group);
    return true;
  }
  void leave(const std::string& reason) {
    Group group;  // the last of it may wait for the device, with nothing locked
    {
      std::lock_guard lock(mutex_);
      ++left_;
      group = std::move(group_);
      changed_.notify_all();
    }
    if (group) group->abort(reason);
  }
  /// Whether it is left, or has been since, within that time.
  bool wait_left(uint64_t left, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return left_ != left; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t left_ = 0;
  Group group_;
};

/// What the queue's tasks share, and they alone use but for `exit`.
struct Shared {
  HostReducerParts parts;
  Exit exit;
  Group group;  ///< once joined, until left
  ps::Generation generation = 0;
  uint64_t left = 0;  ///< how often a group had been left when this one was to be joined
  std::unique_ptr<Stream> own;  ///< lives on from group to group
  /// Where weights that are given together lie, by the first layer: one step's and the next one's in turn, so that
  /// steps that were captured there can be replayed (nn/graph_choice.h).
  std::map<ps::LayerId, std::array<Tensor, 2>> places;
  Tensor sums;                   ///< where one bucket after the other is summed
  Tensor line, lines;            ///< of one member, and of all, in the agreement on the first step
  Tensor host_line, host_lines;  ///< the same in host memory, pinned
  Tensor share;                  ///< a member's samples and whether they are finite, pinned
  std::vector<ps::Bucket> kept;  ///< of the step that runs, summed or to be: they go alone when the group is left

  explicit Shared(HostReducerParts given) : parts(std::move(given)) {}

  Status make(ps::Generation of, const Report& report) {
    auto key = parts.backend->make_group_key();
    if (!key) return tl::unexpected<Error>(key.error());
    report(GroupKnown{of, std::string(reinterpret_cast<const char*>(key->data()), key->size())});
    return {};
  }

  Status join(const ps::JoinGroup& task, uint64_t left_before, const Report& report) {
    left = left_before;
    GroupKey key(task.id.size());
    std::memcpy(key.data(), task.id.data(), key.size());
    GroupSeat seat{task.rank, task.size, parts.device, task.plan, {}};
    seat.given_up = [this, left_before] { return exit.times_left() != left_before; };
    TROUPE_TRY(make_places(task));
    report(GroupKnown{task.generation, task.id});
    auto joined = parts.backend->join_group(key, seat);
    if (!joined) return tl::unexpected<Error>(joined.error());
    const Group now = std::move(*joined);
    if (!exit.enter(left, now)) return {};
    auto from = highest(*now, task.first);
    if (!from) return tl::unexpected<Error>(from.error());
    group = now;
    generation = task.generation;
    report(GroupJoined{task.generation, *from});
    return {};
  }

  /// All memory that its calls need, before there is a group: taking some from a device may wait for a kernel that runs
  /// there, and the others' kernels wait for this member's calls.
  Status make_places(const ps::JoinGroup& task) {
    auto stream = own_stream();
    if (!stream) return tl::unexpected<Error>(stream.error());
    int64_t largest = 0;
    for (const auto& layers : task.summed) largest = std::max(largest, packed_count_of(layers));
    if (!sums || sums.count() != largest + kLineElements) {
      sums = {};
      auto made = memory_for(**stream, largest + kLineElements, "gradients", task.summed);
      if (!made) return tl::unexpected<Error>(made.error());
      sums = std::move(*made);
    }
    for (const auto& layers : task.given)
      for (const ps::Step turn : {0, 1})
        if (auto place = place_for(layers, turn); !place) return tl::unexpected<Error>(place.error());
    line = (*stream)->empty({kLineElements}, DType::f64);
    lines = (*stream)->empty({kLineElements * task.size}, DType::f64);
    host_line = empty_on_host(*parts.backend, line.shape(), DType::f64);
    host_lines = empty_on_host(*parts.backend, lines.shape(), DType::f64);
    share = empty_on_host(*parts.backend, {kLineElements});
    return {};
  }

  int64_t packed_count_of(const std::vector<ps::LayerId>& layers) const {
    int64_t total = 0;
    for (const ps::LayerId layer : layers) total += packed_count(parts.layers[layer].count);
    return total;
  }

  Result<Tensor> memory_for(Stream& stream, int64_t count, const char* what,
                            const std::vector<std::vector<ps::LayerId>>& layers) const {
    try {
      return stream.empty({count});
    } catch (const std::bad_alloc& e) {
      return fail(ErrorKind::exhausted, cat("no memory for ", count, " ", what, " from layer ",
                                            parts.layers[layers.front().front()].name, " on: ", e.what()));
    }
  }

  /// Of all members' numbers.
  Result<ps::Step> highest(Communicator& members, ps::Step mine) {
    Stream& stream = *members.stream();
    std::ranges::fill(host_line.span<double>(), static_cast<double>(mine));
    stream.copy(host_line, line);
    TROUPE_TRY(members.all_gather(line, lines));
    stream.copy(lines, host_lines);
    TROUPE_TRY(stream.wait());
    const auto found = std::as_const(host_lines).span<double>();
    return static_cast<ps::Step>(std::ranges::max(found));
  }

  Status reduce(ps::Bucket bucket, const Report& report) {
    if (!kept.empty() && kept.front().front().step != bucket.front().step) kept.clear();
    if (!group || generation != bucket.front().host->generation) return answer_alone(bucket, report);
    kept.push_back(std::move(bucket));
    auto sum = summed(kept.back());
    if (!sum) return tl::unexpected<Error>(sum.error());
    report(std::move(*sum));
    return {};
  }

  Result<ps::HostSum> summed(const ps::Bucket& bucket) {
    const ps::Step step = bucket.front().step;
    const Span span(parts.track, "reduce", step, {"layer", bucket.front().layer});
    Stream& stream = *group->stream();
    PackedBucket packed = pack_into(sums, stream, bucket, kLineElements);
    std::ranges::fill(share.span<float>(), 0.f);  // counts below 2^24, which f32 holds exactly
    share.data<float>()[0] = static_cast<float>(bucket.front().host->samples);
    share.data<float>()[1] = bucket.front().host->finite ? 0 : 1;
    stream.copy(share, packed.more);
    TROUPE_TRY(group->all_reduce(packed.all, packed.all));
    stream.copy(packed.more, share);
    ps::HostSum sum{step, {}};
    for (size_t i = 0; i < bucket.size(); ++i) {
      Tensor host;
      if (group->rank() == 0) {
        host = empty_on_host(*parts.backend, packed.gradients[i].shape());
        stream.copy(packed.gradients[i], host);
      }
      sum.layers.emplace_back(bucket[i].layer, std::move(host));
    }
    TROUPE_TRY(stream.wait());
    sum.samples = static_cast<int64_t>(std::as_const(share).data<float>()[0]);
    sum.finite = std::as_const(share).data<float>()[1] == 0;
    return sum;
  }

  Result<Stream*> own_stream() {
    if (own) return own.get();
    StreamOptions options;
    options.device = parts.device;
    auto made = parts.backend->make_stream(options);
    if (!made) return tl::unexpected<Error>(made.error());
    own = std::move(*made);
    return own.get();
  }

  Status answer_alone(const ps::Bucket& bucket, const Report& report) {
    auto copies = own_stream();
    if (!copies) return tl::unexpected<Error>(copies.error());
    const ps::HostShare& mine = *bucket.front().host;
    ps::HostSum sum{bucket.front().step, {}, mine.samples, mine.finite, true};
    for (const ps::Reduce& task : bucket) {
      Tensor host = empty_on_host(*parts.backend, task.gradient.shape());
      (*copies)->copy(task.gradient, host);
      sum.layers.emplace_back(task.layer, std::move(host));
    }
    TROUPE_TRY((*copies)->wait());
    report(std::move(sum));
    return {};
  }

  Status broadcast(const ps::Broadcast& task, const Report& report) {
    if (!group || generation != task.generation) return {};
    const Span span(parts.track, "broadcast", task.step, {"layer", task.layers.front()});
    auto place = place_for(task.layers, task.step);
    if (!place) return tl::unexpected<Error>(place.error());
    Stream& stream = *group->stream();
    ps::HostWeights weights{task.step, task.generation, {}};
    int64_t at = 0;
    for (const ps::LayerId layer : task.layers) {
      const int64_t count = parts.layers[layer].count;
      weights.layers.emplace_back(layer, place->view(at, {count}));
      at += packed_count(count);
    }
    for (const ps::Broadcast::Part& part : task.parts) {
      Tensor to = weights.layers[part.layer].second.view(part.begin, {part.values.count()});
      stream.copy(part.values, to);
    }
    TROUPE_TRY(group->broadcast(*place, 0));
    TROUPE_TRY(stream.wait());
    report(std::move(weights));
    return {};
  }

  /// The one of the step before the last. Who reads that still, which no step of a training does, keeps it.
  Result<Tensor> place_for(const std::vector<ps::LayerId>& layers, ps::Step step) {
    const int64_t total = packed_count_of(layers);
    Tensor& place = places[layers.front()][static_cast<size_t>(step % 2)];
    if (place && place.count() == total && place.buffer().use_count() == 1) return place;
    auto stream = own_stream();
    if (!stream) return tl::unexpected<Error>(stream.error());
    place = {};
    auto made = memory_for(**stream, total, "weights", {layers});
    if (made) place = *made;
    return made;
  }

  Status fetch(ps::Fetch task, const Report& report) {
    auto copies = own_stream();
    if (!copies) return tl::unexpected<Error>(copies.error());
    for (auto& [layer, state] : task.layers) {
      Tensor host = empty_on_host(*parts.backend, state.values.shape());
      (*copies)->copy(state.values, host);
      state.values = std::move(host);
    }
    TROUPE_TRY((*copies)->wait());
    report(FetchDone{std::move(task.layers)});
    return {};
  }

  Status leave(const Report& report) {
    group.reset();
    for (const ps::Bucket& bucket : std::exchange(kept, {})) TROUPE_TRY(answer_alone(bucket, report));
    return {};
  }
};

class HostReducer final : public Reducer {
 public:
  explicit HostReducer(HostReducerParts parts)
      : meter_(parts.backend, parts.device, parts.layers, parts.norm),
        queue_(std::move(parts.queue)),
        shared_(std::make_shared<Shared>(std::move(parts))) {}

  void reduce(ps::Bucket bucket, Report report) override {
    const std::string what = cat("sum of step ", bucket.front().step, " over the devices of this host");
    submit(what, std::move(report), [bucket = std::move(bucket)](Shared& shared, const Report& report) {
      return shared.reduce(bucket, report);
    });
  }
  void apply(ps::ApplyLocal task, Report) override {
    TROUPE_CHECK(false, "layer ", task.layer, " is the servers'");
  }
  std::pair<double, bool> measure(ps::LayerId layer, const Tensor& gradient) override {
    return meter_.measure(layer, gradient);
  }

  void make_group(ps::MakeGroup task, Report report) override {
    submit("making a group of this host's devices", std::move(report),
           [task](Shared& shared, const Report& report) { return shared.make(task.generation, report); });
  }
  void join_group(ps::JoinGroup task, Report report) override {
    submit("joining the devices of this host", std::move(report),
           [task = std::move(task), left = shared_->exit.times_left()](Shared& shared, const Report& report) {
             return shared.join(task, left, report);
           });
  }
  void leave_group(Report report) override {
    shared_->exit.leave("another generation has begun");
    submit("leaving the devices of this host", std::move(report),
           [](Shared& shared, const Report& report) { return shared.leave(report); });
  }
  void broadcast(ps::Broadcast task, Report report) override {
    const std::string what = cat("weights of step ", task.step, " for the devices of this host");
    submit(what, std::move(report),
           [task = std::move(task)](Shared& shared, const Report& report) { return shared.broadcast(task, report); });
  }
  void fetch(ps::Fetch task, Report report) override {
    submit("weights for host memory", std::move(report),
           [task = std::move(task)](Shared& shared, const Report& report) { return shared.fetch(task, report); });
  }
  void abort(const std::string& reason) override { shared_->exit.leave(reason); }

 private:
  template <class Work>
  void submit(std::string what, Report report, Work work) {
    queue_->submit([shared = shared_, what = std::move(what), report = std::move(report), work = std::move(work)] {
      Status status = status_of([&] { return work(*shared, report); });
      if (status) return;
      // A member is gone, and the coordinator hears of it. What is missing is answered when this one leaves.
      const ErrorKind kind = status.error().kind;
      const bool others = kind == ErrorKind::cancelled || kind == ErrorKind::missing;
      if (others && shared->exit.wait_left(shared->left, shared->parts.patience)) return;
      if (others)
        status = fail(cat("no new group came within ", shared->parts.patience.count(), " ms"), status.error());
      shared->exit.leave(cat(what, " failed on another worker: ", status.error().message));
      report(TaskFailed{cat(what, ": ", status.error().message)});
    });
  }

  DeviceMeter meter_;  ///< the compute queue's
  const std::shared_ptr<Executor> queue_;  ///< held here alone: no task drops it on its own thread
  const std::shared_ptr<Shared> shared_;
};

}  // namespace

std::shared_ptr<Reducer> make_host_reducer(HostReducerParts parts) {
  return std::make_shared<HostReducer>(std::move(parts));
}

}  // namespace troupe
