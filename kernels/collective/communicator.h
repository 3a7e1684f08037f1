#pragma once
#include <cstdint>
#include <string>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe {

/// Elements [begin, end) of a vector of `count` that rank `rank` of `size` owns: equal parts, but for the
/// last ones, that begin on cache lines (multiples of 16 elements). Parts of small vectors may be empty.
struct Part {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};
Part part_of(int64_t count, int rank, int size);

/// One rank's end of a group that computes together. Every rank makes the same calls in the same order, with
/// equal counts and dtypes (F32 or F64), and each call blocks until all ranks have made it: it belongs on the
/// executor for communication, never in an actor. One thread at a time uses a communicator; `abort` may come
/// from any thread. Of `send` and `receive` the same holds for the two ranks that they join.
///
/// Sums are taken in rank order, ((rank 0 + rank 1) + rank 2) ..., so all ranks hold the same bits, and the
/// same as a serial loop would give, whoever came first. (NCCL's are the same on all ranks, in an order of its own.)
///
/// Failure: a call that the ranks do not agree on (operation, count, dtype, root) returns `invalid` on all of
/// them and leaves the group usable; outputs are untouched. After `abort`, waiting and later calls return
/// `cancelled` with its reason. A call succeeds on all ranks or on none.
class Communicator {
 public:
  /// Leaving a group aborts it: those who stay must not wait for who has gone.
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The stream that a communicator of devices works on: its calls see what was submitted there, or to a stream that it
  /// was ordered after (Backend::order). None where calls read and write memory themselves.
  virtual Stream* stream() { return nullptr; }

  /// out = sum of all ranks' `in`. `out` may be `in`, which is the cheaper form.
  virtual Status all_reduce(const Tensor& in, Tensor& out) = 0;
  /// out = this rank's part (part_of(in.count(), rank, size)) of the sum of all ranks' `in`. No overlap of
  /// `in` and `out`.
  virtual Status reduce_scatter(const Tensor& in, Tensor& out) = 0;
  /// out = all ranks' parts, one after the other; `in` is this rank's part of it, or that view of `out`.
  virtual Status all_gather(const Tensor& in, Tensor& out) = 0;
  /// values = `root`'s values.
  virtual Status broadcast(Tensor& values, int root) = 0;

  /// `values` for rank `to`, who receives as many of that dtype. From one rank to another they come in order.
  virtual Status send(const Tensor& values, int to) = 0;
  virtual Status receive(Tensor& values, int from) = 0;

  /// What is called from here on returns at once, and is done together by `end_group`, which returns the first failure;
  /// the calls beside that one are done. So a rank may send and receive at once, as all ranks of a ring do. Tensors
  /// stay as they are until then. Groups do not nest.
  virtual void begin_group() = 0;
  virtual Status end_group() = 0;

  /// Every waiting or later call of every rank returns an error with this reason instead of hanging. The
  /// first reason stays. A group that was aborted cannot be used again.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace troupe
