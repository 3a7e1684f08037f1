#include <algorithm>

#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/tensors.h>

namespace troupe::ops::cpu {
namespace {

// The ids, each checked against the table.
std::span<const int32_t> expect_ids(const Tensor& ids, const Tensor& table, const char* name) {
  expect_dims(table, 2, 2, name);
  expect(ids, DType::i32, ids.shape(), "ids");
  const int64_t rows = table.shape()[0];
  for (int32_t id : ids.span<int32_t>())
    TROUPE_CHECK(id >= 0 && id < rows, "id ", id, " in a table of ", rows, " rows");
  return ids.span<int32_t>();
}

void embedding(Stream&, const Tensor& table, const Tensor& ids, Tensor& y) {
  const auto rows = expect_ids(ids, table, "table");
  const int64_t width = table.shape()[1];
  expect(y, table.dtype(), {ids.count(), width}, "y");
  const size_t row_bytes = static_cast<size_t>(width) * size_of(table.dtype());
  std::byte* to = y.raw();
  for (int32_t id : rows) {
    std::memcpy(to, table.raw() + static_cast<size_t>(id) * row_bytes, row_bytes);
    to += row_bytes;
  }
}

void embedding_gradient(Stream&, const Tensor& ids, const Tensor& dy, Write write, Tensor& dtable) {
  const auto rows = expect_ids(ids, dtable, "dtable");
  const int64_t width = dtable.shape()[1];
  expect(dy, dtable.dtype(), {ids.count(), width}, "dy");
  dispatch(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = dtable.data<T>();
    const T* from = dy.data<T>();
    if (write == Write::set) std::fill(to, to + dtable.count(), T{0});
    for (int32_t id : rows) {
      T* row = to + id * width;
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) row[i] += from[i];
      from += width;
    }
  });
}

}  // namespace

EmbeddingOps embedding_ops() {
  return {embedding, embedding_gradient};
}

}  // namespace troupe::ops::cpu
