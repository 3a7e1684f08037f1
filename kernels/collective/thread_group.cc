#include <troupe/kernels/collective/thread_group.h>

#include <algorithm>
#include <array>

#include <troupe/kernels/collective/internal/collective_call.h>

namespace troupe {
namespace {

using Call = CollectiveCall;

template <class T>
const T* in_of(const Call& call) {
  return reinterpret_cast<const T*>(call.in);
}
template <class T>
T* out_of(const Call& call) {
  return reinterpret_cast<T*>(call.out);
}

// out[i] = sum over ranks of in[i], in rank order, for one block that stays in the first-level cache.
template <class T>
void sum_block(const std::vector<Call>& calls, int64_t begin, int64_t count, T* out) {
  const T* first = in_of<T>(calls[0]) + begin;
  if (calls.size() == 1) {
    std::copy_n(first, count, out);
    return;
  }
  const T* second = in_of<T>(calls[1]) + begin;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) out[i] = first[i] + second[i];
  for (size_t rank = 2; rank < calls.size(); ++rank) {
    const T* next = in_of<T>(calls[rank]) + begin;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) out[i] += next[i];
  }
}

constexpr int64_t kBlock = 1024;
// Up to here a rank adds up everything by itself from copies, which saves a second meeting.
constexpr int64_t kSmallBytes = 8 << 10;

bool is_small(const Call& call) {
  return call.operation == CollectiveOperation::all_reduce && call.mistake.empty() &&
         call.count * static_cast<int64_t>(size_of(call.dtype)) <= kSmallBytes;
}

template <class T>
void add_up(const std::vector<Call>& calls, int rank) {
  const Call& mine = calls[static_cast<size_t>(rank)];
  for (int64_t at = 0; at < mine.count; at += kBlock)
    sum_block(calls, at, std::min(kBlock, mine.count - at), out_of<T>(mine) + at);
}

template <class T>
void all_reduce_part(const std::vector<Call>& calls, Part part) {
  T sum[kBlock];
  for (int64_t at = part.begin; at < part.end; at += kBlock) {
    const int64_t count = std::min(kBlock, part.end - at);
    sum_block(calls, at, count, sum);
    for (const Call& call : calls) std::copy_n(sum, count, out_of<T>(call) + at);
  }
}

template <class T>
void reduce_scatter_part(const std::vector<Call>& calls, int rank, Part part) {
  T* out = out_of<T>(calls[static_cast<size_t>(rank)]);
  for (int64_t at = part.begin; at < part.end; at += kBlock)
    sum_block(calls, at, std::min(kBlock, part.end - at), out + (at - part.begin));
}

void copy(const std::byte* from, std::byte* to, size_t bytes) {
  if (from != to && bytes > 0) std::memcpy(to, from, bytes);
}

// Rank `rank`'s share of the work that the calls agree on.
template <class T>
void work(const std::vector<Call>& calls, int rank) {
  const Call& mine = calls[static_cast<size_t>(rank)];
  const int size = static_cast<int>(calls.size());
  const Part part = part_of(mine.count, rank, size);
  switch (mine.operation) {
    case CollectiveOperation::all_reduce:
      return all_reduce_part<T>(calls, part);
    case CollectiveOperation::reduce_scatter:
      return reduce_scatter_part<T>(calls, rank, part);
    case CollectiveOperation::all_gather:
      for (int from = 0; from < size; ++from) {
        const Part theirs = part_of(mine.count, from, size);
        copy(calls[static_cast<size_t>(from)].in, mine.out + static_cast<size_t>(theirs.begin) * sizeof(T),
             static_cast<size_t>(theirs.count()) * sizeof(T));
      }
      return;
    case CollectiveOperation::broadcast:
      return copy(calls[static_cast<size_t>(mine.root)].in, mine.out,
                  static_cast<size_t>(mine.count) * sizeof(T));
    case CollectiveOperation::send:
    case CollectiveOperation::receive: return;  // joins two ranks
  }
}

/// The ranks' calls, and room for copies of small inputs: two a rank, as the table has two turns.
struct Shared : CallTable {
  explicit Shared(int size) : CallTable(size), copies(static_cast<size_t>(2 * size)) {}

  struct alignas(64) Copy {
    std::array<std::byte, kSmallBytes> bytes;
  };
  std::vector<Copy> copies;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Shared> table, int rank) : table_(std::move(table)), rank_(rank) {}
  ~ThreadCommunicator() override { table_->abort(cat("rank ", rank_, " left the group")); }

  int rank() const override { return rank_; }
  int size() const override { return table_->size(); }

  Status all_reduce(const Tensor& in, Tensor& out) override { return call(all_reduce_call(in, out)); }
  Status reduce_scatter(const Tensor& in, Tensor& out) override {
    return call(reduce_scatter_call(in, out, rank_, size()));
  }
  Status all_gather(const Tensor& in, Tensor& out) override { return call(all_gather_call(in, out, rank_, size())); }
  Status broadcast(Tensor& values, int root) override { return call(broadcast_call(values, root, size())); }
  Status send(const Tensor& values, int to) override { return call(send_call(values, to, rank_, size())); }
  Status receive(Tensor& values, int from) override { return call(receive_call(values, from, rank_, size())); }

  void begin_group() override { group_.begin(); }
  // Offers first and answers last: whoever waits for one of ours while we wait for another has it.
  Status end_group() override {
    Status first;
    const auto keep = [&first](const Status& status) {
      if (first && !status) first = status;
    };
    const std::vector<Call> calls = group_.end();
    std::vector<std::pair<const Call*, uint64_t>> offers;
    for (const Call& call : calls) {
      if (call.operation != CollectiveOperation::send) continue;
      if (const Status fit = check_own(call, rank_); fit) offers.emplace_back(&call, offer(call));
      else keep(fit);
    }
    for (const Call& call : calls)
      if (!is_pair(call)) keep(together(call));
    for (const Call& call : calls)
      if (call.operation == CollectiveOperation::receive) keep(take(call));
    for (const auto& [call, number] : offers) keep(table_->pairs.settled(rank_, call->root, number));
    return first;
  }

  void abort(const std::string& reason) override { table_->abort(reason); }

 private:
  Status call(Call call) {
    if (group_.open()) {
      group_.add(std::move(call));
      return {};
    }
    if (!is_pair(call)) return together(std::move(call));
    if (call.operation == CollectiveOperation::receive) return take(call);
    TROUPE_TRY(check_own(call, rank_));
    return table_->pairs.settled(rank_, call.root, offer(call));
  }

  uint64_t offer(const Call& call) {
    return table_->pairs.offer(rank_, call.root, {call.dtype, call.count, call.in});
  }

  Status take(const Call& call) {
    TROUPE_TRY(check_own(call, rank_));
    auto offer = table_->pairs.take(call.root, rank_);
    if (!offer) return tl::unexpected<Error>(offer.error());
    std::string mistake = pair_mistake(*offer, call, rank_);
    if (mistake.empty()) copy(offer->bytes, call.out, static_cast<size_t>(call.count) * size_of(call.dtype));
    table_->pairs.answer(call.root, rank_, mistake);
    if (!mistake.empty()) return fail(ErrorKind::invalid, std::move(mistake));
    return {};
  }

  Status together(Call call) {
    const DType dtype = call.dtype;
    const bool small = is_small(call);
    if (small) call.in = copy_of(call);
    auto calls = table_->meet(rank_, std::move(call));
    if (!calls) return tl::unexpected<Error>(calls.error());
    auto problem = disagreement(**calls);
    if (problem) return fail(ErrorKind::invalid, std::move(*problem));
    if (small) {
      dtype == DType::f32 ? add_up<float>(**calls, rank_) : add_up<double>(**calls, rank_);
      return {};
    }
    dtype == DType::f32 ? work<float>(**calls, rank_) : work<double>(**calls, rank_);
    // It cannot be aborted: others read and write this rank's tensors until all have met.
    table_->meet_again(rank_);
    return {};
  }

  const std::byte* copy_of(const Call& call) {
    std::byte* to = table_->copies[2 * static_cast<size_t>(rank_) + table_->turn(rank_)].bytes.data();
    copy(call.in, to, static_cast<size_t>(call.count) * size_of(call.dtype));
    return to;
  }

  std::shared_ptr<Shared> table_;
  int rank_;
  CallGroup group_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(int size) {
  TROUPE_CHECK(size >= 1, "a group of ", size, " ranks");
  auto table = std::make_shared<Shared>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<ThreadCommunicator>(table, rank));
  return ranks;
}

}  // namespace troupe
