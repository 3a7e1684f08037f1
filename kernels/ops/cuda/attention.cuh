#pragma once
#include <troupe/kernels/ops/cuda/math.cuh>
#include <troupe/kernels/ops/cuda/team.cuh>

/// ops/attention.h in tiles, after Dao et al. 2022, "FlashAttention", on a GPU's ordinary arithmetic: a block has a
/// tile of queries (or, for the gradient of keys and values, of keys) of one head, goes over the tiles of the other
/// side, and keeps its results in registers. Scores are made again in the gradient, twice, so that nothing is added by
/// atomics. A block is 16 x 16 threads; a thread has rows ty, ty + 16, ... and columns tx, tx + 16, ... of each tile.
namespace troupe::ops::cuda {

constexpr int kSide = 16;   // threads
constexpr int kDepth = 32;  // columns of q, k, v or dy that are in shared memory at a time
constexpr int kPitch = kDepth + 1;
constexpr int kColumns = kDepth / kSide;  // of those, a thread's

/// Queries, or keys, of a tile: what shared memory holds.
template <class T>
constexpr int kAttentionTile = sizeof(T) == 4 ? 64 : 32;

struct AttentionSizes {
  int64_t n, t, heads, d;
};

/// One head of one sequence in a packed tensor [n, t, 3, heads, d], or in one of [n, t, heads, d].
template <class T>
struct HeadRows {
  T* at;
  int64_t stride;
  __device__ T* row(int64_t i) const { return at + i * stride; }
};

enum class Part { query, key, value };

template <class T>
__device__ HeadRows<T> packed_rows(const AttentionSizes& s, T* qkv, Part part) {
  const int64_t sequence = blockIdx.z, head = blockIdx.y, row = s.heads * s.d;
  return {qkv + sequence * s.t * 3 * row + static_cast<int64_t>(part) * row + head * s.d, 3 * row};
}

template <class T>
__device__ HeadRows<T> plain_rows(const AttentionSizes& s, T* y) {
  const int64_t sequence = blockIdx.z, head = blockIdx.y, row = s.heads * s.d;
  return {y + sequence * s.t * row + head * s.d, row};
}

/// log_sums or D of one head: [n, heads, t].
template <class T>
__device__ T* head_numbers(const AttentionSizes& s, T* numbers) {
  return numbers + (int64_t{blockIdx.z} * s.heads + blockIdx.y) * s.t;
}

/// What a thread holds of a tile: kRows x kCols numbers.
template <class T, int kRows, int kCols>
struct Fragment {
  T at[kRows][kCols] = {};
};

/// The arithmetic of one block; kChunks x kDepth columns cover d.
template <class T, int kChunks>
struct AttentionBlock {
  static constexpr int kTile = kAttentionTile<T>, kEach = kTile / kSide, kPairPitch = kTile + 1;
  using Pairs = Fragment<T, kEach, kEach>;              // of queries and keys
  using Rows = Fragment<T, kEach, kChunks * kColumns>;  // of d columns

  AttentionSizes s;
  int ty, tx;

  __device__ explicit AttentionBlock(const AttentionSizes& sizes)
      : s(sizes), ty(static_cast<int>(threadIdx.x) / kSide), tx(static_cast<int>(threadIdx.x) % kSide) {}

  /// to[r, c] = rows [first + r], columns [chunk kDepth + c]; 0 beyond t and d. For the threads that come after a
  /// barrier.
  template <class Shared, class Q>
  __device__ void load(const HeadRows<Q>& rows, int64_t first, int chunk, Shared to) const {
    for (int e = static_cast<int>(threadIdx.x); e < kTile * kDepth; e += kSide * kSide) {
      const int r = e / kDepth, c = e % kDepth;
      const int64_t i = first + r, column = chunk * kDepth + c;
      to[r * kPitch + c] = i < s.t && column < s.d ? rows.row(i)[column] : T{0};
    }
  }

  /// pairs[i, j] += a[i] . b[j], for rows of a from `first_a` and rows of b from `first_b`.
  template <class Shared, class Q>
  __device__ void multiply(const HeadRows<Q>& a, int64_t first_a, const HeadRows<Q>& b, int64_t first_b, Shared left,
                           Shared right, Pairs& pairs) const {
    for (int chunk = 0; chunk * kDepth < s.d; ++chunk) {
      __syncthreads();
      load(a, first_a, chunk, left);
      load(b, first_b, chunk, right);
      __syncthreads();
      for (int c = 0; c < kDepth; ++c) {
        T x[kEach], y[kEach];
        for (int k = 0; k < kEach; ++k) {
          x[k] = left[(ty + kSide * k) * kPitch + c];
          y[k] = right[(tx + kSide * k) * kPitch + c];
        }
        for (int i = 0; i < kEach; ++i)
          for (int j = 0; j < kEach; ++j) pairs.at[i][j] += x[i] * y[j];
      }
    }
  }

  /// Puts pairs where the other threads find them.
  template <class Shared>
  __device__ void share(const Pairs& pairs, Shared to) const {
    __syncthreads();
    for (int i = 0; i < kEach; ++i)
      for (int j = 0; j < kEach; ++j) to[(ty + kSide * i) * kPairPitch + tx + kSide * j] = pairs.at[i][j];
  }

  /// rows[r] += sum over k of pairs[r, k] b[k] (of pairs[k, r] b[k] where kTransposed), b from `first`.
  template <bool kTransposed, class Shared, class Q>
  __device__ void gather(Shared pairs, const HeadRows<Q>& b, int64_t first, Shared right, Rows& rows) const {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (chunk * kDepth >= s.d) break;
      __syncthreads();
      load(b, first, chunk, right);
      __syncthreads();
      for (int k = 0; k < kTile; ++k) {
        T x[kEach], y[kColumns];
        for (int r = 0; r < kEach; ++r) {
          const int row = ty + kSide * r;
          x[r] = kTransposed ? pairs[k * kPairPitch + row] : pairs[row * kPairPitch + k];
        }
        for (int c = 0; c < kColumns; ++c) y[c] = right[k * kPitch + tx + kSide * c];
        for (int r = 0; r < kEach; ++r)
          for (int c = 0; c < kColumns; ++c) rows.at[r][chunk * kColumns + c] += x[r] * y[c];
      }
    }
  }

  /// Writes rows[r] times factor[r] to rows [first + r].
  template <class Q>
  __device__ void write(const Rows& rows, const T (&factor)[kEach], const HeadRows<Q>& to, int64_t first) const {
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      const int64_t i = first + ty + kSide * r;
      if (i >= s.t) continue;
#pragma unroll
      for (int c = 0; c < kChunks * kColumns; ++c) {
        const int64_t column = c / kColumns * kDepth + c % kColumns * kSide + tx;
        if (column < s.d) to.row(i)[column] = rows.at[r][c] * factor[r];
      }
    }
  }

  /// Whether query i sees key j.
  __device__ bool sees(int64_t i, int64_t j) const { return j <= i && i < s.t; }
};

/// Over the 16 threads that share a row.
template <class T>
__device__ T row_max(T x) {
  for (int bits = kSide / 2; bits > 0; bits /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, x, bits);
    x = other > x ? other : x;
  }
  return x;
}
template <class T>
__device__ T row_sum(T x) {
  for (int bits = kSide / 2; bits > 0; bits /= 2) x += __shfl_xor_sync(kAllLanes, x, bits);
  return x;
}

/// y and log_sums (=) of the queries of tile blockIdx.x.
template <class T, int kChunks>
__global__ void attend(AttentionSizes sizes, T scale, const T* qkv, T* y, T* log_sums) {
  using Block = AttentionBlock<T, kChunks>;
  constexpr int kEach = Block::kEach;
  TROUPE_SHARED(T, left, Block::kTile * kPitch);
  TROUPE_SHARED(T, right, Block::kTile * kPitch);
  TROUPE_SHARED(T, shared_pairs, Block::kTile * Block::kPairPitch);
  const Block block(sizes);
  const auto q = packed_rows(sizes, qkv, Part::query), k = packed_rows(sizes, qkv, Part::key);
  const auto v = packed_rows(sizes, qkv, Part::value);
  const int64_t first = int64_t{blockIdx.x} * Block::kTile, last = min(sizes.t, first + Block::kTile);

  typename Block::Rows out;
  T top[kEach], sum[kEach];
  for (int r = 0; r < kEach; ++r) top[r] = static_cast<T>(-INFINITY), sum[r] = T{0};
  for (int64_t keys = 0; keys < last; keys += Block::kTile) {
    typename Block::Pairs p;
    block.multiply(q, first, k, keys, left, right, p);
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      const int64_t i = first + block.ty + kSide * r;
      T best = top[r], part = T{0};
      for (int c = 0; c < kEach; ++c) {
        const int64_t j = keys + block.tx + kSide * c;
        // Queries behind the last see the first key, so that their sums stay numbers; nobody reads them.
        p.at[r][c] = j <= min(i, sizes.t - 1) ? scale * p.at[r][c] : static_cast<T>(-INFINITY);
        best = p.at[r][c] > best ? p.at[r][c] : best;
      }
      best = row_max(best);
      const T kept = exp_of(top[r] - best);
      for (int c = 0; c < kEach; ++c) {
        p.at[r][c] = exp_of(p.at[r][c] - best);
        part += p.at[r][c];
      }
      top[r] = best;
      sum[r] = sum[r] * kept + row_sum(part);
#pragma unroll
      for (int c = 0; c < kChunks * kColumns; ++c) out.at[r][c] *= kept;
    }
    block.share(p, shared_pairs);
    block.template gather<false>(shared_pairs, v, keys, right, out);
  }

  T share[kEach];
  for (int r = 0; r < kEach; ++r) {
    share[r] = T{1} / sum[r];
    const int64_t i = first + block.ty + kSide * r;
    if (block.tx == 0 && i < sizes.t) head_numbers(sizes, log_sums)[i] = top[r] + log_of(sum[r]);
  }
  block.write(out, share, plain_rows(sizes, y), first);
}

/// D[n, heads, t] (=) = dy . y, a warp a row.
template <class T>
__global__ void attention_dots(AttentionSizes s, const T* y, const T* dy, T* dots) {
  const int64_t row = team_number<kWarp>();  // of [n, t, heads]
  if (row >= s.n * s.t * s.heads) return;
  Sums<T, 1> sum = Sums<T, 1>::none();
  for (int64_t c = team_lane<kWarp>(); c < s.d; c += kWarp) sum.at[0] += y[row * s.d + c] * dy[row * s.d + c];
  sum = team_reduce<kWarp>(sum);
  const int64_t position = row / s.heads, head = row % s.heads, sequence = position / s.t;
  if (team_lane<kWarp>() == 0) dots[(sequence * s.heads + head) * s.t + position % s.t] = sum.at[0];
}

/// What both gradients need of a tile of queries and one of keys: p, and ds.
template <class T, int kChunks, class Shared>
__device__ void make_pairs(const AttentionBlock<T, kChunks>& block, T scale, const T* qkv, const T* dy,
                           const T* log_sums, const T* dots, int64_t queries, int64_t keys, Shared left, Shared right,
                           typename AttentionBlock<T, kChunks>::Pairs& p,
                           typename AttentionBlock<T, kChunks>::Pairs& ds) {
  const AttentionSizes& s = block.s;
  block.multiply(packed_rows(s, qkv, Part::query), queries, packed_rows(s, qkv, Part::key), keys, left, right, p);
  block.multiply(plain_rows(s, dy), queries, packed_rows(s, qkv, Part::value), keys, left, right, ds);
  for (int r = 0; r < block.kEach; ++r) {
    const int64_t i = queries + block.ty + kSide * r;
    const T log_sum = i < s.t ? head_numbers(s, log_sums)[i] : T{0}, dot = i < s.t ? head_numbers(s, dots)[i] : T{0};
    for (int c = 0; c < block.kEach; ++c) {
      const bool seen = block.sees(i, keys + block.tx + kSide * c);
      p.at[r][c] = seen ? exp_of(scale * p.at[r][c] - log_sum) : T{0};
      ds.at[r][c] = p.at[r][c] * (ds.at[r][c] - dot);
    }
  }
}

/// dq (=) of the queries of tile blockIdx.x.
template <class T, int kChunks>
__global__ void query_gradient(AttentionSizes sizes, T scale, const T* qkv, const T* dy, const T* log_sums,
                               const T* dots, T* dqkv) {
  using Block = AttentionBlock<T, kChunks>;
  TROUPE_SHARED(T, left, Block::kTile * kPitch);
  TROUPE_SHARED(T, right, Block::kTile * kPitch);
  TROUPE_SHARED(T, shared_pairs, Block::kTile * Block::kPairPitch);
  const Block block(sizes);
  const int64_t first = int64_t{blockIdx.x} * Block::kTile, last = min(sizes.t, first + Block::kTile);
  typename Block::Rows dq;
  for (int64_t keys = 0; keys < last; keys += Block::kTile) {
    typename Block::Pairs p, ds;
    make_pairs(block, scale, qkv, dy, log_sums, dots, first, keys, left, right, p, ds);
    block.share(ds, shared_pairs);
    block.template gather<false>(shared_pairs, packed_rows(sizes, qkv, Part::key), keys, right, dq);
  }
  T factor[Block::kEach];
  for (int r = 0; r < Block::kEach; ++r) factor[r] = scale;
  block.write(dq, factor, packed_rows(sizes, dqkv, Part::query), first);
}

/// dk and dv (=) of the keys of tile blockIdx.x.
template <class T, int kChunks>
__global__ void key_gradient(AttentionSizes sizes, T scale, const T* qkv, const T* dy, const T* log_sums, const T* dots,
                             T* dqkv) {
  using Block = AttentionBlock<T, kChunks>;
  TROUPE_SHARED(T, left, Block::kTile * kPitch);
  TROUPE_SHARED(T, right, Block::kTile * kPitch);
  TROUPE_SHARED(T, shared_pairs, Block::kTile * Block::kPairPitch);
  const Block block(sizes);
  const int64_t first = int64_t{blockIdx.x} * Block::kTile;
  typename Block::Rows dk, dv;
  for (int64_t queries = first; queries < sizes.t; queries += Block::kTile) {
    typename Block::Pairs p, ds;
    make_pairs(block, scale, qkv, dy, log_sums, dots, queries, first, left, right, p, ds);
    block.share(p, shared_pairs);
    block.template gather<true>(shared_pairs, plain_rows(sizes, dy), queries, right, dv);
    block.share(ds, shared_pairs);
    block.template gather<true>(shared_pairs, packed_rows(sizes, qkv, Part::query), queries, right, dk);
  }
  T factor[Block::kEach], one[Block::kEach];
  for (int r = 0; r < Block::kEach; ++r) factor[r] = scale, one[r] = T{1};
  block.write(dk, factor, packed_rows(sizes, dqkv, Part::key), first);
  block.write(dv, one, packed_rows(sizes, dqkv, Part::value), first);
}

}  // namespace troupe::ops::cuda
