#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/embedding.cuh>
#include <troupe/kernels/ops/cuda/map.cuh>
#include <troupe/kernels/ops/cuda/sort.cuh>

namespace troupe::ops::cuda {
namespace {

template <class T>
void gather(Stream& stream, const Tensor& table, const Tensor& ids, Tensor& y) {
  const int64_t n = y.count(), rows = table.shape()[0], width = table.shape()[1];
  if (n == 0) return;
  const T* from = reinterpret_cast<const T*>(table.raw());
  T* to = reinterpret_cast<T*>(y.raw());
  constexpr int kWide = kWidest<T>;
  if (width % kWide == 0 && aligned(kWide, from, to))
    TROUPE_LAUNCH((gather_rows<kWide, T>), blocks_for(n, kBlockThreads * kWide), kBlockThreads, 0, stream, n, rows,
                  width, from, ids.data<int32_t>(), to);
  else
    TROUPE_LAUNCH((gather_rows<1, T>), blocks_for(n), kBlockThreads, 0, stream, n, rows, width, from,
                  ids.data<int32_t>(), to);
}

void embedding(Stream& stream, const Tensor& table, const Tensor& ids, Tensor& y) {
  expect_dims(table, 2, 2, "table");
  expect(table, table.dtype(), table.shape(), "table");
  expect(ids, DType::i32, ids.shape(), "ids");
  expect(y, table.dtype(), {ids.count(), table.shape()[1]}, "y");
  // Only moved, so that the size is all that matters of a type.
  switch (size_of(table.dtype())) {
    case 1: return gather<uint8_t>(stream, table, ids, y);
    case 2: return gather<uint16_t>(stream, table, ids, y);
    case 4: return gather<uint32_t>(stream, table, ids, y);
    default: return gather<uint64_t>(stream, table, ids, y);
  }
}

struct SortedIds {
  const int32_t *keys, *places;
};

// The ids sorted, and where each was. In the stream's scratch.
SortedIds sort_ids(Stream& stream, const Tensor& ids, int64_t rows) {
  const int64_t n = ids.count(), tiles = (n + kTile - 1) / kTile;
  TROUPE_CHECK(n <= INT32_MAX && rows <= INT32_MAX, n, " ids in a table of ", rows, " rows");
  auto* scratch =
      reinterpret_cast<int32_t*>(stream.scratch(static_cast<size_t>(4 * n + kDigits * tiles) * sizeof(int32_t)));
  int32_t *to_keys = scratch, *to_places = scratch + n, *spare_keys = scratch + 2 * n, *spare_places = scratch + 3 * n;
  int32_t* counts = scratch + 4 * n;
  SortedIds sorted{ids.data<int32_t>(), nullptr};
  for (int shift = 0; shift == 0 || (shift < 32 && (rows - 1) >> shift > 0); shift += 8) {
    TROUPE_LAUNCH(count_digits, blocks_for(tiles, 1), kWarp, 0, stream, n, static_cast<int32_t>(rows), shift,
                  sorted.keys, counts);
    TROUPE_LAUNCH(sum_counts, 1, kDigits, 0, stream, tiles, counts);
    TROUPE_LAUNCH(move_pairs, blocks_for(tiles, 1), kWarp, 0, stream, n, shift, sorted.keys, sorted.places, counts,
                  to_keys, to_places);
    sorted = {to_keys, to_places};
    std::swap(to_keys, spare_keys);
    std::swap(to_places, spare_places);
  }
  return sorted;
}

template <int kWidth, class T>
void add_rows(Stream& stream, int64_t n, int64_t width, Write write, SortedIds sorted, const T* dy, T* table) {
  const int64_t packs = width / kWidth;
  const auto threads = static_cast<unsigned>(std::min<int64_t>(kBlockThreads, (packs + kWarp - 1) / kWarp * kWarp));
  TROUPE_LAUNCH((add_sorted_rows<kWidth, T>), blocks_for(n, 1), threads, 0, stream, n, width, write == Write::add,
                sorted.keys, sorted.places, dy, table);
}

template <class T>
struct Zero {
  __device__ T operator()() const { return T{0}; }
};

void embedding_gradient(Stream& stream, const Tensor& ids, const Tensor& dy, Write write, Tensor& dtable) {
  expect_dims(dtable, 2, 2, "dtable");
  expect(dtable, dtable.dtype(), dtable.shape(), "dtable");
  expect(ids, DType::i32, ids.shape(), "ids");
  const int64_t n = ids.count(), width = dtable.shape()[1];
  expect(dy, dtable.dtype(), {n, width}, "dy");
  dispatch(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = dy.data<T>();
    T* to = dtable.data<T>();
    if (write == Write::set) map(stream, dtable.count(), Zero<T>{}, to);
    if (n == 0 || width == 0) return;
    const SortedIds sorted = sort_ids(stream, ids, dtable.shape()[0]);
    constexpr int kWide = kWidest<T>;
    if (width % kWide == 0 && aligned(kWide, from, to))
      add_rows<kWide>(stream, n, width, write, sorted, from, to);
    else
      add_rows<1>(stream, n, width, write, sorted, from, to);
  });
}

}  // namespace

EmbeddingOps embedding_ops() { return {embedding, embedding_gradient}; }

}  // namespace troupe::ops::cuda
