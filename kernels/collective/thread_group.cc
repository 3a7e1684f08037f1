#include <troupe/kernels/collective/thread_group.h>

#include <algorithm>
#include <optional>

#include <troupe/kernels/collective/thread_barrier.h>

namespace troupe {
namespace {

enum class Operation { all_reduce, reduce_scatter, all_gather, broadcast };

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::all_gather:
      return "all_gather";
    case Operation::broadcast:
      return "broadcast";
  }
  return "?";
}

// What one rank asks for. The pointers are good between the two barriers of the call.
struct Call {
  Operation operation;
  DType dtype;
  int64_t count;  ///< of the whole vector, not of a part
  int root;
  const std::byte* in;
  std::byte* out;
  std::string mistake;  ///< what this rank finds wrong with its own arguments
};

std::string describe(const Call& call) {
  std::string text = cat(name_of(call.operation), " of ", call.count, " x ", troupe::name_of(call.dtype));
  if (call.operation == Operation::broadcast) text += cat(" from rank ", call.root);
  return text;
}

struct Group {
  explicit Group(int size) : barrier(size), calls(static_cast<size_t>(size)) {}
  ThreadBarrier barrier;
  std::vector<Call> calls;  ///< by rank
};

// Why these calls cannot be done together; every rank finds the same.
std::optional<std::string> disagreement(const std::vector<Call>& calls) {
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const Call& call = calls[rank];
    if (!call.mistake.empty()) return cat("rank ", rank, " calls ", describe(call), " with ", call.mistake);
    const Call& first = calls[0];
    if (call.operation != first.operation || call.dtype != first.dtype || call.count != first.count ||
        call.root != first.root)
      return cat("rank ", rank, " calls ", describe(call), " where rank 0 calls ", describe(first),
                 "; all ranks of a group must make the same calls in the same order");
  }
  return std::nullopt;
}

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
    case Operation::all_reduce:
      return all_reduce_part<T>(calls, part);
    case Operation::reduce_scatter:
      return reduce_scatter_part<T>(calls, rank, part);
    case Operation::all_gather:
      for (int from = 0; from < size; ++from) {
        const Part theirs = part_of(mine.count, from, size);
        copy(calls[static_cast<size_t>(from)].in, mine.out + static_cast<size_t>(theirs.begin) * sizeof(T),
             static_cast<size_t>(theirs.count()) * sizeof(T));
      }
      return;
    case Operation::broadcast:
      return copy(calls[static_cast<size_t>(mine.root)].in, mine.out,
                  static_cast<size_t>(mine.count) * sizeof(T));
  }
}

std::string count_mistake(const char* what, int64_t count, int64_t wanted) {
  return count == wanted ? "" : cat(count, " elements in `", what, "` instead of ", wanted);
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}
  ~ThreadCommunicator() override { group_->barrier.abort(cat("rank ", rank_, " left the group")); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->calls.size()); }

  Status all_reduce(const Tensor& in, Tensor& out) override {
    return call({Operation::all_reduce, in.dtype(), in.count(), 0, in.raw(), out.raw(),
                 count_mistake("out", out.count(), in.count())},
                out);
  }

  Status reduce_scatter(const Tensor& in, Tensor& out) override {
    return call({Operation::reduce_scatter, in.dtype(), in.count(), 0, in.raw(), out.raw(),
                 count_mistake("out", out.count(), part_of(in.count(), rank_, size()).count())},
                out);
  }

  Status all_gather(const Tensor& in, Tensor& out) override {
    return call({Operation::all_gather, in.dtype(), out.count(), 0, in.raw(), out.raw(),
                 count_mistake("in", in.count(), part_of(out.count(), rank_, size()).count())},
                out);
  }

  Status broadcast(Tensor& values, int root) override {
    return call({Operation::broadcast, values.dtype(), values.count(), root, values.raw(), values.raw(),
                 root >= 0 && root < size() ? "" : cat("root ", root, " in a group of ", size())},
                values);
  }

  void abort(const std::string& reason) override { group_->barrier.abort(reason); }

 private:
  // The second barrier cannot be aborted: others read and write this rank's tensors until all have met.
  Status call(Call call, const Tensor& out) {
    if (out.dtype() != call.dtype)
      call.mistake = cat("an output of ", troupe::name_of(out.dtype()));
    else if (call.dtype != DType::f32 && call.dtype != DType::f64)
      call.mistake = "a dtype that cannot be summed (F32 and F64 can)";
    const DType dtype = call.dtype;
    std::vector<Call>& calls = group_->calls;
    calls[static_cast<size_t>(rank_)] = std::move(call);
    if (!group_->barrier.meet_or_abort())
      return fail(ErrorKind::cancelled, "collective aborted: " + group_->barrier.abort_reason());
    auto problem = disagreement(calls);
    if (!problem) dtype == DType::f32 ? work<float>(calls, rank_) : work<double>(calls, rank_);
    group_->barrier.meet();
    if (problem) return fail(ErrorKind::invalid, std::move(*problem));
    return {};
  }

  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(int size) {
  TROUPE_CHECK(size >= 1, "a group of ", size, " ranks");
  auto group = std::make_shared<Group>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<ThreadCommunicator>(group, rank));
  return ranks;
}

}  // namespace troupe
