#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <troupe/kernels/collective/communicator.h>
#include <troupe/kernels/collective/internal/pair_table.h>
#include <troupe/kernels/collective/thread_barrier.h>

namespace troupe {

enum class CollectiveOperation { all_reduce, reduce_scatter, all_gather, broadcast, send, receive };

/// What one rank asks of its group. The pointers are good while the call runs.
struct alignas(64) CollectiveCall {
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
class CallTable {
 public:
  explicit CallTable(int size);

  int size() const { return static_cast<int>(seats_.size()); }
  /// Waits for all ranks' calls and returns them by rank; `cancelled` on all of them after an abort. What they
  /// disagree about is for `disagreement` to say. They stay as they are until `rank` meets the others again: whoever
  /// is ahead writes the other of two tables.
  Result<const std::vector<CollectiveCall>*> meet(int rank, CollectiveCall call);
  /// Which of two the next call of `rank` is written to.
  size_t turn(int rank) const { return seats_[static_cast<size_t>(rank)].calls % 2; }

  /// Waits for all ranks once more, aborted or not: for those that read and write each other's tensors.
  void meet_again(int rank) { barrier_.meet(seats_[static_cast<size_t>(rank)].lookout); }

  /// Ends all waits, now and later. The first reason stays.
  void abort(const std::string& reason);
  /// Empty unless aborted.
  std::string abort_reason() const { return barrier_.abort_reason(); }

  PairTable pairs;

 private:
  /// What only the rank's own thread reads and writes.
  struct alignas(64) Seat {
    size_t calls = 0;  ///< that it made
    Lookout lookout{std::chrono::microseconds(50)};
  };
  ThreadBarrier barrier_;
  std::vector<Seat> seats_;
  std::array<std::vector<CollectiveCall>, 2> calls_;
};

}  // namespace troupe
