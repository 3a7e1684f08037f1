#pragma once
#include <optional>
#include <string>
#include <vector>

#include <troupe/kernels/collective/communicator.h>
#include <troupe/kernels/collective/internal/pair_table.h>
#include <troupe/kernels/collective/thread_barrier.h>

namespace troupe {

enum class CollectiveOperation { all_reduce, reduce_scatter, all_gather, broadcast, send, receive };

/// What one rank asks of its group. The pointers are good while the call runs.
struct CollectiveCall {
  CollectiveOperation operation;
  DType dtype;
  int64_t count;  ///< of the whole vector, not of a part
  int root;  ///< of a broadcast; the other rank of a send or receive
  const std::byte* in;
  std::byte* out;
  std::string mistake;  ///< what this rank finds wrong with its own arguments
};

CollectiveCall all_reduce_call(const Tensor& in, Tensor& out);
CollectiveCall reduce_scatter_call(const Tensor& in, Tensor& out, int rank, int size);
CollectiveCall all_gather_call(const Tensor& in, Tensor& out, int rank, int size);
CollectiveCall broadcast_call(Tensor& values, int root, int size);
CollectiveCall send_call(const Tensor& values, int to, int rank, int size);
CollectiveCall receive_call(Tensor& values, int from, int rank, int size);

/// "all_reduce", valid for the life of the program.
const char* name_of(CollectiveOperation operation);
/// "broadcast of 16 x F32 from rank 1".
std::string describe(const CollectiveCall& call);
/// Why these calls, by rank, cannot be done together; every rank finds the same.
std::optional<std::string> disagreement(const std::vector<CollectiveCall>& calls);

/// Why rank `rank` cannot receive by `receive` what is offered; empty where it can.
std::string pair_mistake(const PairTable::Offer& offer, const CollectiveCall& receive, int rank);
/// Whether it joins two ranks only.
bool is_pair(const CollectiveCall& call);
/// `fail` with what the rank finds wrong with its own arguments, if anything.
Status check_own(const CollectiveCall& call, int rank);

/// Calls of one rank that are to be done together.
class CallGroup {
 public:
  void begin();
  bool open() const { return open_; }
  void add(CollectiveCall call) { calls_.push_back(std::move(call)); }
  std::vector<CollectiveCall> end();

 private:
  bool open_ = false;
  std::vector<CollectiveCall> calls_;
};

/// Where the threads of a group compare what they are about to do.
struct CallTable {
  explicit CallTable(int size) : barrier(size), calls(static_cast<size_t>(size)), pairs(size) {}

  /// Waits for all ranks' calls. `cancelled` on all of them after an abort. What they disagree about is for
  /// `disagreement` to say, while nobody writes the table: until the ranks have met again.
  Status meet(int rank, CollectiveCall call);

  /// Ends all waits, now and later. The first reason stays.
  void abort(const std::string& reason);

  ThreadBarrier barrier;
  std::vector<CollectiveCall> calls;  ///< by rank
  PairTable pairs;
};

}  // namespace troupe
