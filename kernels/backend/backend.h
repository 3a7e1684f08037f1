#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/kernels/backend/matmul_precision.h>
#include <troupe/kernels/base/result.h>
#include <troupe/kernels/collective/communicator.h>
#include <troupe/kernels/ops/ops.h>
#include <troupe/kernels/ops/update.h>
#include <troupe/kernels/tensor/stream.h>

namespace troupe {

class BlockCache;

struct StreamOptions {
  int device = 0;
  int threads = 1;  ///< of a stream on the CPU
  MatmulPrecision matmul = MatmulPrecision::f32;
};

/// What a device is, for people and for benchmarks.
struct DeviceFacts {
  std::string name;         ///< "NVIDIA H200"
  std::string driver;       ///< versions, "driver 13.0, runtime 13.0"
  size_t memory_bytes = 0;  ///< in all; 0: not known
  int processors = 0;
};

/// Names a group of ranks in several processes: one of them makes it, the others are told (ps::CollectiveId).
using GroupKey = std::vector<std::byte>;

struct GroupSeat {
  int rank = 0, size = 1;
  int device = 0;
  uint64_t plan = 0;  ///< a hash of the calls that a step makes: it must be the same for all ranks
  /// Asked while waiting for the others, here and in later calls, on the caller's thread; once it is true the group is
  /// `cancelled`. [never]
  std::function<bool()> given_up;
};

/// What was submitted to a stream while it was captured (a CUDA graph), to be submitted again in one piece.
class LaunchGraph {
 public:
  virtual ~LaunchGraph() = default;
};

/// Submitted to a stream so far.
struct LaunchCounts {
  uint64_t kernels = 0;  ///< one by one
  uint64_t graphs = 0;
};

/// The devices of one kind in this process: streams, arithmetic and communicators for them. Thread-safe. What it made
/// keeps what it needs of it alive.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual DeviceKind kind() const = 0;
  /// By index; never empty.
  virtual const std::vector<DeviceFacts>& devices() const = 0;
  virtual const ops::Ops& ops() const = 0;
  /// Optimizer steps on parameters that live on a device of this backend. None of the CPU's: those are the servers' own
  /// (ps/param/optimizers).
  virtual const ops::UpdateOps* update_ops() const = 0;

  /// `invalid` for an index beyond the devices, `exhausted` where the device has no memory left for it.
  virtual Result<std::unique_ptr<Stream>> make_stream(const StreamOptions& options) = 0;

  /// What is submitted to `after` from here on begins when all that was submitted to `before` has run; nobody waits
  /// here. Both are this backend's streams; the caller is the one who may use them.
  virtual void order(Stream& before, Stream& after) = 0;

  virtual LaunchCounts launches(const Stream&) const { return {}; }

  /// Until `end_capture`, what ops and copies within the device submit to `stream` is not run but recorded. Memory that
  /// the stream gives out meanwhile comes from `memory`, which is made where it is empty: it must live as long as the
  /// graphs that were captured with it. Captures with the same memory are replayed in the order in which they were
  /// made: what one dropped, a later one may have taken. Whoever uses the stream in between waits for nothing and
  /// copies nothing to or from host memory. `missing` where this backend has no graphs.
  virtual Status begin_capture(Stream& stream, std::shared_ptr<BlockCache>& memory);
  /// An error where something was submitted that cannot be captured, and says what; nothing has run then.
  virtual Result<std::unique_ptr<LaunchGraph>> end_capture(Stream& stream);
  /// Submits it, to the stream that it was captured of. `cancelled` where memory that the stream lends to ops
  /// (Stream::scratch) has moved since: the capture is worth nothing any more, and nothing was submitted.
  virtual Status replay(LaunchGraph& graph, Stream& stream);

  /// Host memory that streams of this backend copy to and from without a stop in between; from a cache. std::bad_alloc
  /// where there is none.
  virtual BufferPtr allocate_host(size_t bytes) = 0;

  /// Communicators of a group inside this process, rank r on device devices[r]. `invalid` where devices do not exist or
  /// one is named twice.
  virtual Result<std::vector<std::unique_ptr<Communicator>>> make_group(std::span<const int> devices) = 0;

  /// The same over several processes: one asks for a key, all join with it, each for its own rank, and wait until all
  /// have. Ranks that disagree about size or plan, or do not come within a minute, are an error. Never on an actor's
  /// thread. `missing` where this backend has no such groups.
  virtual Result<GroupKey> make_group_key() = 0;
  virtual Result<std::unique_ptr<Communicator>> join_group(const GroupKey& key, const GroupSeat& seat) = 0;
};

/// The backend of a kind, the same one at every call. The CPU's is part of the program. CUDA's is a module,
/// libtroupe_cuda.so, that is loaded on the first call: it stands beside the program, in ../lib/troupe, or where the
/// system looks for libraries. `missing` says which of module, library, driver or device is not there.
Result<std::shared_ptr<Backend>> load_backend(DeviceKind kind);

/// Float tensor of host memory from `allocate_host`.
inline Tensor empty_on_host(Backend& backend, Shape shape, DType dtype = DType::f32) {
  return Tensor(backend.allocate_host(static_cast<size_t>(shape.count()) * size_of(dtype)), 0, shape, dtype);
}

}  // namespace troupe
