#include <troupe/kernels/collective/nccl/nccl_group.h>

#include <chrono>
#include <cstring>
#include <mutex>

#include <troupe/kernels/collective/internal/collective_call.h>
#include <troupe/kernels/collective/nccl/nccl_comm.h>
#include <troupe/kernels/tensor/cuda/devices.h>
#include <troupe/kernels/tensor/cuda/memory.h>

namespace troupe {
namespace {

constexpr auto kPatienceToJoin = std::chrono::seconds(60);
constexpr const char* kGivenUp = "this rank has given up";

// Ranks that only hand over elements may do so with any dtype: as bytes of the same number.
ncclDataType_t nccl_type(DType dtype) {
  switch (size_of(dtype)) {
    case 8: return ncclFloat64;
    case 4: return ncclFloat32;
    case 2: return ncclFloat16;
    default: return ncclUint8;
  }
}

// Parts of equal size are one operation to NCCL; others, the ones of small or odd counts, one for each part.
bool equal_parts(int64_t count, int size) {
  for (int rank = 0; rank < size; ++rank)
    if (part_of(count, rank, size).count() * size != count) return false;
  return true;
}

// For every part that is not empty: body(rank it belongs to, offset in bytes, elements), all of them one operation.
template <class Body>
ncclResult_t for_parts(const CollectiveCall& call, int size, const Body& body) {
  ncclGroupStart();
  ncclResult_t first = ncclSuccess;
  for (int rank = 0; rank < size; ++rank) {
    const Part part = part_of(call.count, rank, size);
    if (part.count() == 0) continue;
    const ncclResult_t result =
        body(rank, static_cast<size_t>(part.begin) * size_of(call.dtype), static_cast<size_t>(part.count()));
    if (first == ncclSuccess) first = result;
  }
  const ncclResult_t ended = ncclGroupEnd();
  return first == ncclSuccess || first == ncclInProgress ? ended : first;
}

ncclResult_t submit(const CollectiveCall& call, int rank, int size, ncclComm_t comm, cudaStream_t stream) {
  const ncclDataType_t type = nccl_type(call.dtype);
  const auto count = static_cast<size_t>(call.count);
  switch (call.operation) {
    case CollectiveOperation::all_reduce: return ncclAllReduce(call.in, call.out, count, type, ncclSum, comm, stream);
    case CollectiveOperation::reduce_scatter:
      if (equal_parts(call.count, size))
        return ncclReduceScatter(call.in, call.out, count / static_cast<size_t>(size), type, ncclSum, comm, stream);
      return for_parts(call, size, [&](int owner, size_t offset, size_t elements) {
        return ncclReduce(call.in + offset, owner == rank ? call.out : nullptr, elements, type, ncclSum, owner, comm,
                          stream);
      });
    case CollectiveOperation::all_gather:
      if (equal_parts(call.count, size))
        return ncclAllGather(call.in, call.out, count / static_cast<size_t>(size), type, comm, stream);
      return for_parts(call, size, [&](int owner, size_t offset, size_t elements) {
        return ncclBroadcast(call.in, call.out + offset, elements, type, owner, comm, stream);
      });
    case CollectiveOperation::broadcast: return ncclBroadcast(call.in, call.out, count, type, call.root, comm, stream);
    case CollectiveOperation::send: return ncclSend(call.in, count, type, call.root, comm, stream);
    case CollectiveOperation::receive: return ncclRecv(call.out, count, type, call.root, comm, stream);
  }
  return ncclInvalidArgument;
}

/// Why a group ended, from any thread.
class AbortReason {
 public:
  void set(const std::string& reason) {
    std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = reason.empty() ? "no reason given" : reason;
  }
  std::string get() const {
    std::lock_guard lock(mutex_);
    return reason_;
  }

 private:
  mutable std::mutex mutex_;
  std::string reason_;
};

class NcclCommunicator final : public Communicator {
 public:
  /// `table` is the group's inside this process; none where ranks are in several.
  NcclCommunicator(std::unique_ptr<NcclComm> comm, int rank, int size, std::shared_ptr<CallTable> table,
                   std::function<bool()> given_up = {})
      : comm_(std::move(comm)), rank_(rank), size_(size), table_(std::move(table)), given_up_(std::move(given_up)) {}
  ~NcclCommunicator() override { abort(cat("rank ", rank_, " left the group")); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Stream* stream() override { return &comm_->stream(); }

  Status all_reduce(const Tensor& in, Tensor& out) override { return call(all_reduce_call(in, out), in, out); }
  Status reduce_scatter(const Tensor& in, Tensor& out) override {
    return call(reduce_scatter_call(in, out, rank_, size_), in, out);
  }
  Status all_gather(const Tensor& in, Tensor& out) override {
    return call(all_gather_call(in, out, rank_, size_), in, out);
  }
  Status broadcast(Tensor& values, int root) override {
    return call(broadcast_call(values, root, size_), values, values);
  }
  Status send(const Tensor& values, int to) override {
    return call(send_call(values, to, rank_, size_), values, values);
  }
  Status receive(Tensor& values, int from) override {
    return call(receive_call(values, from, rank_, size_), values, values);
  }

  void begin_group() override { group_.begin(); }
  Status end_group() override { return together("a group of calls", group_.end()); }

  void abort(const std::string& reason) override {
    reason_.set(reason);
    if (table_) table_->abort(reason);
  }

 private:
  std::string aborted() const {
    if (const std::string reason = table_ ? table_->abort_reason() : ""; !reason.empty()) return reason;
    return given_up_ && given_up_() ? kGivenUp : reason_.get();
  }

  Status call(CollectiveCall call, const Tensor& in, const Tensor& out) {
    const Device device = comm_->stream().device();
    if (call.mistake.empty() && (in.device() != device || out.device() != device))
      call.mistake = cat("memory that is not on CUDA device ", device.index);
    if (group_.open()) {
      group_.add(std::move(call));
      return {};
    }
    const char* name = name_of(call.operation);
    return together(name, {std::move(call)});
  }

  // Those that the ranks agree on, as one operation.
  Status together(const char* name, std::vector<CollectiveCall> calls) {
    Status first;
    std::vector<Status> agreed = agree(calls);
    std::vector<const CollectiveCall*> fit;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (agreed[i] && calls[i].count > 0) fit.push_back(&calls[i]);
      if (first && !agreed[i]) first = std::move(agreed[i]);
    }
    if (fit.empty()) return first;
    const Status done = run(name, fit);
    // Those who wait on the device for this rank are told.
    if (!done) abort(done.error().message);
    return first ? done : first;
  }

  Status run(const char* name, const std::vector<const CollectiveCall*>& calls) {
    const auto submit_all = [&](ncclComm_t comm, cudaStream_t stream) {
      if (calls.size() == 1) return submit(*calls[0], rank_, size_, comm, stream);
      ncclGroupStart();
      ncclResult_t first = ncclSuccess;
      for (const CollectiveCall* call : calls) {
        const ncclResult_t result = submit(*call, rank_, size_, comm, stream);
        if (first == ncclSuccess && result != ncclInProgress) first = result;
      }
      const ncclResult_t ended = ncclGroupEnd();
      return first == ncclSuccess ? ended : first;
    };
    try {
      return comm_->run(name, submit_all, [this] { return aborted(); });
    } catch (const std::exception& e) {
      return fail(ErrorKind::failed, e.what());
    }
  }

  // What each call is worth, by the word of all ranks where they share a process, else by this rank's arguments.
  std::vector<Status> agree(const std::vector<CollectiveCall>& calls) {
    std::vector<Status> agreed;
    for (const CollectiveCall& call : calls) agreed.push_back(check_own(call, rank_));
    if (!table_) return agreed;
    std::vector<uint64_t> offers(calls.size());
    for (size_t i = 0; i < calls.size(); ++i)
      if (agreed[i] && calls[i].operation == CollectiveOperation::send)
        offers[i] = table_->pairs.offer(rank_, calls[i].root, {calls[i].dtype, calls[i].count, calls[i].in});
    for (size_t i = 0; i < calls.size(); ++i)
      if (!is_pair(calls[i])) agreed[i] = meet(calls[i]);
    for (size_t i = 0; i < calls.size(); ++i)
      if (agreed[i] && calls[i].operation == CollectiveOperation::receive) agreed[i] = take(calls[i]);
    for (size_t i = 0; i < calls.size(); ++i)
      if (agreed[i] && calls[i].operation == CollectiveOperation::send)
        agreed[i] = table_->pairs.settled(rank_, calls[i].root, offers[i]);
    return agreed;
  }

  Status meet(const CollectiveCall& call) {
    auto calls = table_->meet(rank_, call);
    if (!calls) return tl::unexpected<Error>(calls.error());
    if (auto problem = disagreement(**calls); problem) return fail(ErrorKind::invalid, std::move(*problem));
    return {};
  }

  Status take(const CollectiveCall& call) {
    auto offer = table_->pairs.take(call.root, rank_);
    if (!offer) return tl::unexpected<Error>(offer.error());
    std::string mistake = pair_mistake(*offer, call, rank_);
    table_->pairs.answer(call.root, rank_, mistake);
    if (!mistake.empty()) return fail(ErrorKind::invalid, std::move(mistake));
    return {};
  }

  std::unique_ptr<NcclComm> comm_;
  int rank_, size_;
  std::shared_ptr<CallTable> table_;
  std::function<bool()> given_up_;
  CallGroup group_;
  AbortReason reason_;
};

/// Communicators being made; those that nobody took over are aborted.
struct Making {
  explicit Making(size_t count) : comms(count, nullptr) {}
  ~Making() {
    for (ncclComm_t comm : comms)
      if (comm) ncclCommAbort(comm);
  }
  std::vector<ncclComm_t> comms;
};

std::unique_ptr<NcclComm> with_stream(ncclComm_t& comm, int device) {
  StreamOptions options;
  options.device = device;
  auto stream =
      std::make_unique<cuda::CudaStream>(options, std::make_shared<BlockCache>(cuda::make_device_memory(device)),
                                         std::make_shared<BlockCache>(cuda::make_pinned_memory()));
  return std::make_unique<NcclComm>(std::exchange(comm, nullptr), std::move(stream));
}

// Ranks first, first + 1, ... of a group of `size`, one on each device. All calls to NCCL are one group.
Status begin(Making& making, const ncclUniqueId& id, std::span<const int> devices, int first, int size,
             const std::function<bool()>& given_up = {}) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclGroupStart();
  ncclResult_t result = ncclSuccess;
  for (size_t i = 0; i < devices.size() && (result == ncclSuccess || result == ncclInProgress); ++i) {
    cuda::use(devices[i]);
    result = ncclCommInitRankConfig(&making.comms[i], size, id, first + static_cast<int>(i), &config);
  }
  const ncclResult_t ended = ncclGroupEnd();
  if (result == ncclSuccess || result == ncclInProgress) result = ended;
  if (result != ncclSuccess && result != ncclInProgress)
    return fail(ErrorKind::failed, cat("NCCL could not make a group of ", size, " ranks: ", describe(result, nullptr)));
  const auto end = std::chrono::steady_clock::now() + kPatienceToJoin;
  const auto late = [&] {
    if (given_up && given_up()) return std::string(kGivenUp);
    const bool is_late = std::chrono::steady_clock::now() > end;
    return is_late ? cat("not all of the ", size, " ranks came within ", kPatienceToJoin.count(), " s") : std::string();
  };
  for (ncclComm_t comm : making.comms) TROUPE_TRY(settle(comm, "making a NCCL group", late));
  return {};
}

// Sums of 16-bit pieces and of their squares, which float64 holds exactly in any group. They are all equal where
// (sum of x)^2 = size x sum of x^2, and only there (Cauchy and Schwarz).
Status same_plan(NcclCommunicator& group, uint64_t plan) {
  Stream& stream = *group.stream();
  Tensor host = Tensor::empty({8}, DType::f64);
  for (int i = 0; i < 4; ++i) {
    const auto piece = static_cast<double>(plan >> (16 * i) & 0xffffu);
    host.data<double>()[i] = piece;
    host.data<double>()[4 + i] = piece * piece;
  }
  Tensor values = stream.empty({8}, DType::f64);
  stream.copy(host, values);
  TROUPE_TRY(group.all_reduce(values, values));
  stream.copy(values, host);
  TROUPE_TRY(stream.wait());
  for (int i = 0; i < 4; ++i) {
    const double sum = host.data<double>()[i], squares = host.data<double>()[4 + i];
    if (sum * sum != group.size() * squares)
      return fail(ErrorKind::invalid,
                  "the ranks of a group do not plan the same collectives (layers, sizes and order "
                  "must be the same everywhere); start all processes with the same config");
  }
  return {};
}

}  // namespace

Result<std::vector<std::unique_ptr<Communicator>>> make_nccl_group(std::span<const int> devices) {
  ncclUniqueId id{};
  if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess)
    return fail(ErrorKind::failed, "NCCL does not start: " + describe(result, nullptr));
  const int size = static_cast<int>(devices.size());
  Making making(devices.size());
  TROUPE_TRY(begin(making, id, devices, 0, size));
  const auto table = std::make_shared<CallTable>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    const auto i = static_cast<size_t>(rank);
    ranks.push_back(std::make_unique<NcclCommunicator>(with_stream(making.comms[i], devices[i]), rank, size, table));
  }
  return ranks;
}

Result<GroupKey> make_nccl_key() {
  ncclUniqueId id{};
  if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess)
    return fail(ErrorKind::failed, "NCCL does not start: " + describe(result, nullptr));
  GroupKey key(sizeof id);
  std::memcpy(key.data(), &id, sizeof id);
  return key;
}

Result<std::unique_ptr<Communicator>> join_nccl_group(const GroupKey& key, const GroupSeat& where) {
  ncclUniqueId id{};
  if (key.size() != sizeof id)
    return fail(ErrorKind::invalid, cat("a group's key of ", key.size(), " bytes; NCCL's have ", sizeof id));
  if (where.rank < 0 || where.rank >= where.size)
    return fail(ErrorKind::invalid, cat("rank ", where.rank, " of a group of ", where.size));
  std::memcpy(&id, key.data(), sizeof id);
  Making making(1);
  TROUPE_TRY(begin(making, id, {&where.device, 1}, where.rank, where.size, where.given_up));
  auto joined =
      std::make_unique<NcclCommunicator>(with_stream(making.comms[0], where.device), where.rank, where.size, nullptr,
                                         where.given_up);
  TROUPE_TRY(same_plan(*joined, where.plan));
  return joined;
}

}  // namespace troupe
