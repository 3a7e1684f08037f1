#pragma once
#include <atomic>
#include <condition_variable>
#include <future>
#include <map>

#include <tests/support/late_queue.h>
#include <troupe/kernels/backend/backend.h>
#include <troupe/kernels/base/random.h>
#include <troupe/kernels/collective/thread_group.h>
#include <troupe/kernels/ops/internal/op_list.h>
#include <troupe/kernels/tensor/internal/block_cache.h>

/// A device that is not there, for tests of what submits to devices. It computes as the CPU does, but late: each stream
/// is a thread that waits a little before much of what it does. Like a GPU it keeps nothing alive that kernels use, and
/// its memory goes from a tensor that is dropped to the next one at once. So whoever forgets an order between streams,
/// or drops something early, gets wrong numbers.
namespace troupe::test {

class HostBlocks final : public BlockSource {
 public:
  std::byte* take(size_t bytes) override {
    if (held_.fetch_add(bytes) + bytes > limit) {
      held_ -= bytes;
      return nullptr;
    }
    return new std::byte[bytes];
  }
  void give(std::byte* block) override { delete[] block; }
  Device device() const override { return {DeviceKind::cuda, 0}; }
  std::string state() const override { return cat(limit - held_, " bytes are free"); }

  size_t limit = size_t{1} << 40;  ///< of all bytes ever taken

 private:
  std::atomic<size_t> held_{0};
};

/// What a kernel gets of a tensor: an address, which keeps nothing alive.
inline Tensor seen_by_kernel(const Tensor& t) {
  if (!t) return {};
  auto buffer = std::make_shared<Buffer>(const_cast<std::byte*>(t.raw()), t.bytes(), Device{}, [](Buffer&) {});
  return Tensor(std::move(buffer), 0, t.shape(), t.dtype());
}
template <class T>
requires(!std::same_as<T, Tensor>) T seen_by_kernel(const T& value) { return value; }

class LateStream final : public Stream {
 public:
  LateStream(std::shared_ptr<BlockSource> memory, uint64_t seed)
      : Stream({DeviceKind::cuda, 0}),
        source_(memory),
        memory_(std::make_shared<BlockCache>(std::move(memory))),
        queue_(seed) {}

  BufferPtr allocate(size_t bytes) override {
    BufferPtr buffer = (captured_memory_ ? captured_memory_ : memory_)->allocate(bytes);
    if (!buffer) throw std::bad_alloc();
    return buffer;
  }
  void copy(const Tensor& from, Tensor& to) override {
    if (captured_memory_) {
      if (from.device() != to.device()) throw std::runtime_error("a copy from or to host memory cannot be captured");
      return submit([from = seen_by_kernel(from), to = seen_by_kernel(to)]() mutable {
        std::memcpy(to.raw(), from.raw(), from.bytes());
      });
    }
    if (to.device().kind == DeviceKind::cpu) bytes_to_host += from.bytes();
    submit([from, to]() mutable { std::memcpy(to.raw(), from.raw(), from.bytes()); });
  }
  void then(std::function<void(Status)> done) override {
    if (captured_memory_) throw std::runtime_error("a callback cannot be captured");
    submit([this, done] { done(status()); });
  }
  Status wait() override {
    std::promise<Status> done;
    then([&](Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }

  void submit(std::function<void()> task) {
    if (captured_memory_) return captured_.push_back(std::move(task));
    queue_.push(std::move(task));
  }
  /// From here on everything fails, as after an error of a kernel.
  void break_down(const std::string& why) {
    submit([this, why] { broken_ = why; });
  }
  Stream& host() { return host_; }

  /// Late, too, is what a graph does: all of it, when the stream comes to it.
  struct Graph final : LaunchGraph {
    std::shared_ptr<const std::vector<std::function<void()>>> tasks;
    const std::byte* scratch = nullptr;
  };
  void begin_capture(std::shared_ptr<BlockCache>& memory) {
    if (!memory) memory = std::make_shared<BlockCache>(source_);
    captured_memory_ = memory;
  }
  std::unique_ptr<LaunchGraph> end_capture() {
    captured_memory_.reset();
    auto graph = std::make_unique<Graph>();
    graph->tasks = std::make_shared<const std::vector<std::function<void()>>>(std::exchange(captured_, {}));
    graph->scratch = scratch(0);
    return graph;
  }
  Status replay(Graph& graph) {
    if (graph.scratch != scratch(0)) return fail(ErrorKind::cancelled, "scratch has moved");
    ++counts.graphs;
    submit([tasks = graph.tasks] {
      for (const auto& task : *tasks) task();
    });
    return {};
  }
  void launched() { counts.kernels += !captured_memory_; }
  LaunchCounts counts;
  size_t bytes_to_host = 0;  ///< that copies were asked for

 private:
  Status status() const { return broken_.empty() ? Status() : fail(ErrorKind::failed, broken_); }

  std::shared_ptr<BlockSource> source_;
  std::shared_ptr<BlockCache> memory_;
  std::shared_ptr<BlockCache> captured_memory_;  ///< while something is captured
  std::vector<std::function<void()>> captured_;
  Stream host_;
  std::string broken_;  ///< the queue's alone
  LateQueue queue_;     ///< ends first: its tasks use all the rest
};

/// The function of table() that `member` points to, when the stream comes to it.
template <auto table, auto member>
struct Late;
template <auto table, class Family, class... Args, void (*Family::*member)(Stream&, Args...)>
struct Late<table, member> {
  static void call(Stream& stream, Args... args) {
    auto& late = dynamic_cast<LateStream&>(stream);
    late.launched();
    late.submit([&late, seen = std::tuple(seen_by_kernel(args)...)]() mutable {
      std::apply([&](auto&... a) { (table().*member)(late.host(), a...); }, seen);
    });
  }
};

inline const ops::Ops& late_ops() {
  static const ops::Ops all = [] {
    ops::Ops ops{};
#define TROUPE_LATE_OP(op) ops.op = Late<ops::cpu_ops, &ops::Ops::op>::call;
    TROUPE_EACH_OP(TROUPE_LATE_OP)
#undef TROUPE_LATE_OP
    return ops;
  }();
  return all;
}

/// A rank of threads whose tensors are where a late stream works: what was submitted there is done first, as a device
/// would see to.
class LateCommunicator final : public Communicator {
 public:
  using Broadcasting = std::function<void(int rank)>;
  LateCommunicator(std::unique_ptr<Communicator> threads, std::unique_ptr<Stream> stream,
                   Broadcasting broadcasting = {})
      : threads_(std::move(threads)), stream_(std::move(stream)), broadcasting_(std::move(broadcasting)) {}

  int rank() const override { return threads_->rank(); }
  int size() const override { return threads_->size(); }
  Stream* stream() override { return stream_.get(); }
  Status all_reduce(const Tensor& in, Tensor& out) override {
    TROUPE_TRY(stream_->wait());
    return threads_->all_reduce(in, out);
  }
  Status reduce_scatter(const Tensor& in, Tensor& out) override {
    TROUPE_TRY(stream_->wait());
    return threads_->reduce_scatter(in, out);
  }
  Status all_gather(const Tensor& in, Tensor& out) override {
    TROUPE_TRY(stream_->wait());
    return threads_->all_gather(in, out);
  }
  Status broadcast(Tensor& values, int root) override {
    if (broadcasting_) broadcasting_(rank());
    TROUPE_TRY(stream_->wait());
    return threads_->broadcast(values, root);
  }
  Status send(const Tensor& values, int to) override {
    TROUPE_TRY(stream_->wait());
    return threads_->send(values, to);
  }
  Status receive(Tensor& values, int from) override {
    TROUPE_TRY(stream_->wait());
    return threads_->receive(values, from);
  }
  void begin_group() override { threads_->begin_group(); }
  Status end_group() override {
    TROUPE_TRY(stream_->wait());
    return threads_->end_group();
  }
  void abort(const std::string& reason) override { threads_->abort(reason); }

 private:
  std::unique_ptr<Communicator> threads_;
  std::unique_ptr<Stream> stream_;
  const Broadcasting broadcasting_;
};

class LateBackend final : public Backend {
 public:
  explicit LateBackend(uint64_t seed, size_t devices = 1)
      : seed_(seed), devices_(devices, DeviceFacts{"late device", "none", 0, 1}) {}

  DeviceKind kind() const override { return DeviceKind::cuda; }
  const std::vector<DeviceFacts>& devices() const override { return devices_; }
  const ops::Ops& ops() const override { return late_ops(); }
  const ops::UpdateOps* update_ops() const override { return updates; }
  Result<std::unique_ptr<Stream>> make_stream(const StreamOptions&) override {
    std::lock_guard lock(mutex_);
    auto stream = std::make_unique<LateStream>(memory, derive_seed(seed_, "stream", streams.size()));
    streams.push_back(stream.get());
    return stream;
  }
  void order(Stream& before, Stream& after) override {
    const auto passed = std::make_shared<std::promise<void>>();
    dynamic_cast<LateStream&>(before).submit([passed] { passed->set_value(); });
    dynamic_cast<LateStream&>(after).submit([wait = passed->get_future().share()] { wait.wait(); });
  }
  LaunchCounts launches(const Stream& stream) const override { return dynamic_cast<const LateStream&>(stream).counts; }
  Status begin_capture(Stream& stream, std::shared_ptr<BlockCache>& memory) override {
    if (!refuses_captures.empty()) return fail(ErrorKind::failed, refuses_captures);
    dynamic_cast<LateStream&>(stream).begin_capture(memory);
    return {};
  }
  Result<std::unique_ptr<LaunchGraph>> end_capture(Stream& stream) override {
    auto graph = dynamic_cast<LateStream&>(stream).end_capture();
    if (captures_that_work > 0 && --captures_that_work == 0)
      return fail(ErrorKind::failed, "an op that waits was captured");
    return graph;
  }
  Status replay(LaunchGraph& graph, Stream& stream) override {
    return dynamic_cast<LateStream&>(stream).replay(dynamic_cast<LateStream::Graph&>(graph));
  }
  BufferPtr allocate_host(size_t bytes) override { return allocate(bytes); }
  Result<std::vector<std::unique_ptr<Communicator>>> make_group(std::span<const int> devices) override {
    auto ranks = make_thread_group(static_cast<int>(devices.size()));
    for (auto& rank : ranks) rank = std::make_unique<LateCommunicator>(std::move(rank), *make_stream({}));
    return ranks;
  }
  Result<GroupKey> make_group_key() override {
    std::lock_guard lock(mutex_);
    return GroupKey(8, static_cast<std::byte>(++keys_));
  }
  Result<std::unique_ptr<Communicator>> join_group(const GroupKey& key, const GroupSeat& seat) override {
    ++joins;
    std::unique_lock lock(mutex_);
    Joining& group = joining_[key];
    if (group.ranks.empty()) group.ranks = make_thread_group(seat.size);
    if (group.plans.empty()) group.plans.assign(static_cast<size_t>(seat.size), 0);
    group.plans[static_cast<size_t>(seat.rank)] = seat.plan;
    ++group.come;
    come_.notify_all();
    while (group.come < seat.size) {
      if (seat.given_up && seat.given_up()) return fail(ErrorKind::cancelled, "a member has given up");
      come_.wait_for(lock, std::chrono::milliseconds(1));  // that somebody has given up is for us to ask
    }
    for (const uint64_t plan : group.plans)
      if (plan != seat.plan) return fail(ErrorKind::invalid, "the ranks of a group do not plan the same collectives");
    auto rank = std::move(group.ranks[static_cast<size_t>(seat.rank)]);
    lock.unlock();
    return std::make_unique<LateCommunicator>(std::move(rank), *make_stream({}), broadcasting);
  }

  std::vector<LateStream*> all_streams() {
    std::lock_guard lock(mutex_);
    return streams;
  }

  std::shared_ptr<HostBlocks> memory = std::make_shared<HostBlocks>();
  std::string refuses_captures;    ///< why, for a backend that cannot begin one
  int captures_that_work = 0;      ///< so many but the last of them; 0: all
  const ops::UpdateOps* updates = nullptr;  ///< late_updates.h has some
  std::vector<LateStream*> streams;  ///< in the order made
  std::atomic<int> joins = 0;        ///< asked for
  LateCommunicator::Broadcasting broadcasting;  ///< before each broadcast of a joined group, on its rank's thread

 private:
  struct Joining {
    std::vector<std::unique_ptr<Communicator>> ranks;
    std::vector<uint64_t> plans;
    int come = 0;
  };
  uint64_t seed_;
  std::vector<DeviceFacts> devices_;
  std::mutex mutex_;  ///< of `streams` and what follows
  int keys_ = 0;
  std::map<GroupKey, Joining> joining_;
  std::condition_variable come_;  ///< to a group of `joining_`
};

}  // namespace troupe::test
