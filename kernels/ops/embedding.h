#pragma once
#include <troupe/kernels/ops/write.h>
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// Rows of a table by number: ids i32 of any shape, n in all, each in [0, rows); another id is a bug.
struct EmbeddingOps {
  /// y[n, width] = table[ids, :] for table [rows, width].
  void (*embedding)(Stream&, const Tensor& table, const Tensor& ids, Tensor& y);

  /// dtable[rows, width] (=, +=) dy[n, width] added to the rows of `ids`, in the order of `ids`; Write::set
  /// zeroes all other rows.
  void (*embedding_gradient)(Stream&, const Tensor& ids, const Tensor& dy, Write, Tensor& dtable);
};

}  // namespace troupe::ops
