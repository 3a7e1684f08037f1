#include <nccl.h>

#include <array>
#include <cstring>
#include <optional>
#include <set>

#include <tests/support/simulated_cuda/world.h>

using namespace troupe;
using namespace troupe::test::simulated_cuda;

namespace {

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64: return 8;
    case ncclFloat32: return 4;
    case ncclFloat16: return 2;
    default: return 1;
  }
}

enum class Operation { all_reduce, reduce, reduce_scatter, all_gather, broadcast };

/// What the ranks of a call must agree on.
struct Terms {
  Operation operation;
  size_t count;
  ncclDataType_t type;
  int root;
  bool operator==(const Terms&) const = default;
};

using Bytes = std::vector<std::byte>;

struct Group {
  int size = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, ncclComm_t> joined;
  std::set<int> aborted;
  bool lost = false;  ///< a rank: the others hear it

  struct Call {
    std::map<int, Bytes> inputs;
    std::optional<Terms> terms;
    bool disagrees = false;
  };
  std::map<uint64_t, Call> calls;
  std::map<std::pair<int, int>, std::deque<Bytes>> sent;
};

struct Groups {
  std::mutex mutex;
  uint64_t made = 0;
  std::map<std::string, std::shared_ptr<Group>> by_id;
};
Groups& groups() {
  static Groups* const all = new Groups;
  return *all;
}

std::atomic<int> waiting = 0;
thread_local int depth = 0;
thread_local std::vector<std::function<void()>> together, sends_together;

}  // namespace

struct ncclComm {
  std::shared_ptr<Group> group;
  int rank = 0;
  uint64_t calls = 0;
  std::atomic<int> in_progress = 0;  ///< so many more questions until what was asked for is done
  bool gone = false;
};

namespace {

/// Communicators are kept when they are gone, so that whoever still uses one is found.
bool usable(ncclComm_t comm, const char* function) {
  if (in_callback) world().broke(cat(function, " was called from a callback"));
  if (!comm || comm->gone) return world().broke(cat(function, " on a communicator that is gone")), false;
  if (comm->in_progress > 0) return world().broke(cat(function, " while the call before it is in progress")), false;
  return true;
}

ncclResult_t begin(ncclComm_t comm, cudaStream_t stream, const char* function, std::function<cudaError_t()> kernel,
                   bool is_send = false) {
  if (!usable(comm, function)) return ncclInvalidUsage;
  const auto submit = [comm, stream, kernel = std::move(kernel)] {
    const int device = std::exchange(current_device, stream->queue->device);
    launch(stream, kernel);
    current_device = device;
    comm->in_progress = 2;
  };
  if (depth == 0) return submit(), ncclInProgress;
  (is_send ? sends_together : together).push_back(submit);
  return ncclSuccess;
}

/// What this rank's kernel does: it hands in `in`, waits for the others', and makes `out` of them all.
cudaError_t meet(ncclComm_t comm, uint64_t number, const Terms& terms, Bytes in,
                 const std::function<void(const std::vector<Bytes>&)>& finish) {
  Group& group = *comm->group;
  std::vector<Bytes> all;
  {
    std::unique_lock lock(group.mutex);
    Group::Call& call = group.calls[number];
    if (call.terms && *call.terms != terms) call.disagrees = true;
    call.terms = terms;
    call.inputs[comm->rank] = std::move(in);
    group.changed.notify_all();
    ++waiting;
    waiting.notify_all();
    group.changed.wait(lock, [&] {
      return group.aborted.contains(comm->rank) || (std::ssize(call.inputs) == group.size && !call.disagrees);
    });
    --waiting;
    if (group.aborted.contains(comm->rank)) return cudaSuccess;
    for (const auto& [rank, bytes] : call.inputs) all.push_back(bytes);
  }
  finish(all);
  return cudaSuccess;
}

template <class T>
void add(const std::vector<Bytes>& all, size_t begin, size_t count, void* out) {
  for (size_t i = 0; i < count; ++i) {
    T sum{};
    for (const Bytes& bytes : all) sum += reinterpret_cast<const T*>(bytes.data())[begin + i];
    static_cast<T*>(out)[i] = sum;
  }
}
void add(const std::vector<Bytes>& all, ncclDataType_t type, size_t begin, size_t count, void* out) {
  if (type == ncclFloat64) return add<double>(all, begin, count, out);
  if (type == ncclFloat32) return add<float>(all, begin, count, out);
  world().broke("a sum of what is neither f32 nor f64");
}

Bytes bytes_at(const void* from, size_t count, ncclDataType_t type) {
  const auto* p = static_cast<const std::byte*>(from);
  return Bytes(p, p + count * size_of(type));
}

/// `count` elements of `in` are each rank's.
ncclResult_t collective(const char* function, ncclComm_t comm, cudaStream_t stream, const Terms& terms, const void* in,
                        size_t count, std::function<void(const std::vector<Bytes>&)> finish) {
  if (!comm) return ncclInvalidArgument;
  const uint64_t number = comm->calls++;
  return begin(comm, stream, function, [=, finish = std::move(finish)] {
    return meet(comm, number, terms, in ? bytes_at(in, count, terms.type) : Bytes(), finish);
  });
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::lock_guard lock(groups().mutex);
  *id = {};
  const std::string name = cat("group ", ++groups().made);
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0) world().broke("a communicator whose calls block");
  std::lock_guard lock(groups().mutex);
  auto& group = groups().by_id[std::string(id.internal, sizeof id.internal)];
  if (!group) {
    group = std::make_shared<Group>();
    group->size = size;
  }
  *made = new ncclComm;
  (*made)->group = group;
  (*made)->rank = rank;
  std::lock_guard in_group(group->mutex);
  if (group->size != size || !group->joined.try_emplace(rank, *made).second) return ncclInvalidArgument;
  world().count(&Alive::communicators, 1);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (!comm || comm->gone) return world().broke("asking a communicator that is gone"), ncclInvalidUsage;
  Group& group = *comm->group;
  std::lock_guard lock(group.mutex);
  if (group.lost) return *state = ncclRemoteError, ncclSuccess;
  if (std::ssize(group.joined) < group.size) return *state = ncclInProgress, ncclSuccess;
  if (comm->in_progress > 0) return --comm->in_progress, *state = ncclInProgress, ncclSuccess;
  return *state = ncclSuccess, ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!comm || comm->gone) return world().broke("a communicator was ended twice"), ncclInvalidUsage;
  comm->gone = true;
  world().count(&Alive::communicators, -1);
  std::lock_guard lock(comm->group->mutex);
  comm->group->aborted.insert(comm->rank);
  comm->group->changed.notify_all();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (!comm || comm->gone) return world().broke("a communicator was ended twice"), ncclInvalidUsage;
  comm->in_progress = 2;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->in_progress > 0) world().broke("a communicator was destroyed before it was finalized");
  return ncclCommAbort(comm);
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error" : "an error of NCCL";
}
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGroupStart() { return ++depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  if (--depth > 0) return ncclSuccess;
  if (together.empty() && sends_together.empty()) return ncclSuccess;
  // All at once: nobody's receiving waits for what this rank has still to send.
  for (const auto& submit : std::exchange(sends_together, {})) submit();
  for (const auto& submit : std::exchange(together, {})) submit();
  return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(__func__, comm, stream, {Operation::all_reduce, count, type, 0}, in, count,
                    [=](const auto& all) { add(all, type, 0, count, out); });
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return collective(__func__, comm, stream, {Operation::reduce, count, type, root}, in, count, [=](const auto& all) {
    if (comm->rank == root) add(all, type, 0, count, out);
  });
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream) {
  const auto size = static_cast<size_t>(comm->group->size);
  return collective(__func__, comm, stream, {Operation::reduce_scatter, count, type, 0}, in, count * size,
                    [=](const auto& all) { add(all, type, count * static_cast<size_t>(comm->rank), count, out); });
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(__func__, comm, stream, {Operation::all_gather, count, type, 0}, in, count, [=](const auto& all) {
    for (size_t rank = 0; rank < all.size(); ++rank)
      std::memcpy(static_cast<std::byte*>(out) + rank * count * size_of(type), all[rank].data(), all[rank].size());
  });
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  const void* mine = comm->rank == root ? in : nullptr;
  return collective(__func__, comm, stream, {Operation::broadcast, count, type, root}, mine, count,
                    [=](const auto& all) {
                      const Bytes& bytes = all[static_cast<size_t>(root)];
                      std::memcpy(out, bytes.data(), bytes.size());
                    });
}
ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int to, ncclComm_t comm, cudaStream_t stream) {
  return begin(
      comm, stream, __func__,
      [=] {
        std::lock_guard lock(comm->group->mutex);
        comm->group->sent[{comm->rank, to}].push_back(bytes_at(in, count, type));
        comm->group->changed.notify_all();
        return cudaSuccess;
      },
      true);
}
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int from, ncclComm_t comm, cudaStream_t stream) {
  return begin(comm, stream, __func__, [=] {
    Group& group = *comm->group;
    std::unique_lock lock(group.mutex);
    auto& queue = group.sent[{from, comm->rank}];
    group.changed.wait(lock, [&] {
      return group.aborted.contains(comm->rank) ||
             (!queue.empty() && queue.front().size() == count * size_of(type));  // others hang
    });
    if (group.aborted.contains(comm->rank)) return cudaSuccess;
    std::memcpy(out, queue.front().data(), queue.front().size());
    queue.pop_front();
    return cudaSuccess;
  });
}

namespace troupe::test::simulated_cuda {

void await_waiting_kernels(int count) {
  for (int now = waiting; now < count; now = waiting) waiting.wait(now);
}

void lose_rank(int rank) {
  std::lock_guard lock(groups().mutex);
  for (const auto& [id, group] : groups().by_id) {
    std::lock_guard in_group(group->mutex);
    group->lost = group->joined.contains(rank);
  }
}

}  // namespace troupe::test::simulated_cuda
