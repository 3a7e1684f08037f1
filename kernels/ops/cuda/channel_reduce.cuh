#pragma once
#include <troupe/kernels/ops/internal/tensors.h>
#include <troupe/kernels/ops/cuda/team.cuh>

/// One number (or a few) a channel of a tensor [outer, channels, inner], over all of its elements, in two steps: blocks
/// reduce slabs of each channel, then the slabs of each are merged. How the slabs are cut depends on the shape
/// alone.
///
/// A Source says what an element adds: source.see(accumulator, o, c, i) with i its place in the flat tensor. A Finish
/// says what becomes of the whole: finish(c, accumulator).
namespace troupe::ops::cuda {

constexpr int kTileColumns = 32, kTileRows = kBlockThreads / kTileColumns;

/// inner = 1: a matrix [rows, columns]. A block has a tile of columns, so that a warp reads neighbours.
/// partial[slab, column] = what rows [slab rows_per_slab, ...) add up to.
template <class A, class Source>
__global__ void reduce_columns(int64_t rows, int64_t columns, int64_t rows_per_slab, Source source, A* partial) {
  const int column_in_tile = static_cast<int>(threadIdx.x % kTileColumns);
  const int row_in_tile = static_cast<int>(threadIdx.x / kTileColumns);
  const int64_t c = int64_t{blockIdx.x} * kTileColumns + column_in_tile, slab = blockIdx.y;
  const int64_t last = min(rows, (slab + 1) * rows_per_slab);
  A mine = A::none();
  if (c < columns) {
#pragma unroll 4
    for (int64_t o = slab * rows_per_slab + row_in_tile; o < last; o += kTileRows)
      source.see(mine, o, c, o * columns + c);
  }
  TROUPE_SHARED(A, tile, kBlockThreads);
  tile[threadIdx.x] = mine;
  __syncthreads();
  if (row_in_tile > 0 || c >= columns) return;
  for (int r = 1; r < kTileRows; ++r) mine.merge(tile[r * kTileColumns + column_in_tile]);
  partial[slab * columns + c] = mine;
}

/// inner > 1. A block has a slab of one channel: pixels [slab per_slab, ...) of its outer x inner.
template <class A, class Source>
__global__ void reduce_planes(int64_t outer, int64_t channels, int64_t inner, int64_t per_slab, Source source,
                              A* partial) {
  const int64_t c = blockIdx.x, slab = blockIdx.y;
  const int64_t last = min(outer * inner, (slab + 1) * per_slab);
  int64_t at = slab * per_slab + threadIdx.x;
  int64_t o = at / inner, i = at % inner;
  const int64_t step_o = kBlockThreads / inner, step_i = kBlockThreads % inner;
  A mine = A::none();
#pragma unroll 4
  for (; at < last; at += kBlockThreads) {
    source.see(mine, o, c, (o * channels + c) * inner + i);
    o += step_o;
    i += step_i;
    if (i >= inner) i -= inner, ++o;
  }
  mine = team_reduce<kBlockThreads>(mine);
  if (threadIdx.x == 0) partial[slab * channels + c] = mine;
}

/// finish(c, all slabs of partial[slabs, channels] merged), kTeam threads a channel: one, or a warp.
template <int kTeam, class A, class Finish>
__global__ void merge_slabs(int64_t slabs, int64_t channels, const A* partial, Finish finish) {
  const int64_t c = team_number<kTeam>();
  if (c >= channels) return;
  A mine = A::none();
  for (int64_t s = team_lane<kTeam>(); s < slabs; s += kTeam) mine.merge(partial[s * channels + c]);
  if constexpr (kTeam > 1) mine = team_reduce<kTeam>(mine);
  if (team_lane<kTeam>() == 0) finish(c, mine);
}

/// How the elements of a channel are cut.
struct Slabs {
  int64_t count, elements;

  /// About 2048 blocks in all, and slabs that are worth one.
  explicit Slabs(const Channels& shape, int64_t tile_columns = kTileColumns) {
    const int64_t total = shape.outer * shape.inner;
    const int64_t least = shape.inner == 1 ? 16 * kTileRows : 16 * kBlockThreads;
    const int64_t tiles = shape.inner == 1 ? (shape.count + tile_columns - 1) / tile_columns : shape.count;
    const int64_t wanted = std::max<int64_t>(1, std::min(2048 / std::max<int64_t>(1, tiles), total / least));
    elements = std::max<int64_t>(1, (total + wanted - 1) / wanted);
    count = std::max<int64_t>(1, (total + elements - 1) / elements);
  }
};

/// Scratch for `reduce_channels` with this accumulator.
template <class A>
size_t partial_bytes(const Channels& shape) {
  return static_cast<size_t>(Slabs(shape).count * shape.count) * sizeof(A);
}

/// The second step.
template <class A, class Finish>
void merge_channels(Stream& stream, const Channels& shape, const Slabs& slabs, const A* partial, Finish finish) {
  if (slabs.count <= 8)
    TROUPE_LAUNCH((merge_slabs<1, A, Finish>), blocks_for(shape.count), kBlockThreads, 0, stream, slabs.count,
                  shape.count, partial, finish);
  else
    TROUPE_LAUNCH((merge_slabs<kWarp, A, Finish>), blocks_for(shape.count, kBlockThreads / kWarp), kBlockThreads, 0,
                  stream, slabs.count, shape.count, partial, finish);
}

/// Runs the two steps. `partial` has partial_bytes<A>(shape). Of no elements a channel is A::none().
template <class A, class Source, class Finish>
void reduce_channels(Stream& stream, const Channels& shape, Source source, Finish finish, A* partial) {
  if (shape.count == 0) return;
  const Slabs slabs(shape);
  const auto rows = static_cast<unsigned>(slabs.count);
  if (shape.inner == 1)
    TROUPE_LAUNCH((reduce_columns<A, Source>), dim3(blocks_for(shape.count, kTileColumns), rows), kBlockThreads, 0,
                  stream, shape.outer, shape.count, slabs.elements, source, partial);
  else
    TROUPE_LAUNCH((reduce_planes<A, Source>), dim3(blocks_for(shape.count, 1), rows), kBlockThreads, 0, stream,
                  shape.inner == 0 ? 0 : shape.outer, shape.count, std::max<int64_t>(1, shape.inner), slabs.elements,
                  source, partial);  // the kernel divides by `inner`
  merge_channels(stream, shape, slabs, partial, finish);
}

}  // namespace troupe::ops::cuda
