#pragma once
#include <troupe/kernels/ops/cuda/team.cuh>

/// Sorts (key, place) pairs by key, equal keys in the order they had: a radix sort of eight bits a pass, from the
/// lowest. A warp takes a tile of the pairs; three kernels a pass: count each tile's digits, sum the counts up, move.
namespace troupe::ops::cuda {

constexpr int kDigits = 256;
constexpr int64_t kTile = 1024;

__device__ inline int digit_of(int32_t key, int shift) { return key >> shift & (kDigits - 1); }

/// counts[digit, tile] = how many keys of the tile have the digit. Blocks of one warp. Keys outside [0, limit) stop it.
static __global__ void count_digits(int64_t n, int32_t limit, int shift, const int32_t* keys, int32_t* counts) {
  TROUPE_SHARED(int, count, kDigits);
  const int lane = static_cast<int>(threadIdx.x);
  for (int d = lane; d < kDigits; d += kWarp) count[d] = 0;
  __syncwarp();
  const int64_t first = blockIdx.x * kTile, last = min(n, first + kTile);
  for (int64_t i = first + lane; i < last; i += kWarp) {
    if (keys[i] < 0 || keys[i] >= limit) __trap();
    atomicAdd(&count[digit_of(keys[i], shift)], 1);
  }
  __syncwarp();
  for (int d = lane; d < kDigits; d += kWarp) counts[int64_t{d} * gridDim.x + blockIdx.x] = count[d];
}

/// counts[digit, tile] becomes the sum of all counts before it. One block of kDigits threads, each with a digit.
static __global__ void sum_counts(int64_t tiles, int32_t* counts) {
  TROUPE_SHARED(int, total, kDigits);
  const int digit = static_cast<int>(threadIdx.x);
  int32_t* mine = counts + digit * tiles;
  int sum = 0;
  for (int64_t t = 0; t < tiles; ++t) sum += mine[t];
  total[digit] = sum;
  __syncthreads();
  for (int step = 1; step < kDigits; step *= 2) {
    const int before = digit >= step ? total[digit - step] : 0;
    __syncthreads();
    total[digit] += before;
    __syncthreads();
  }
  int next = total[digit] - sum;
  for (int64_t t = 0; t < tiles; ++t) {
    const int count = mine[t];
    mine[t] = next;
    next += count;
  }
}

/// Moves the pairs to where the summed counts say, tile by tile in order. places == nullptr: place i is i.
static __global__ void move_pairs(int64_t n, int shift, const int32_t* keys, const int32_t* places,
                                  const int32_t* counts, int32_t* to_keys, int32_t* to_places) {
  TROUPE_SHARED(int, next, kDigits);
  const int lane = static_cast<int>(threadIdx.x);
  for (int d = lane; d < kDigits; d += kWarp) next[d] = counts[int64_t{d} * gridDim.x + blockIdx.x];
  __syncwarp();
  const int64_t first = blockIdx.x * kTile, last = min(n, first + kTile);
  for (int64_t row = first; row < last; row += kWarp) {
    const int64_t i = row + lane;
    const int32_t key = i < last ? keys[i] : 0;
    const int digit = i < last ? digit_of(key, shift) : kDigits;
    const unsigned peers = __match_any_sync(kAllLanes, digit);
    const int before = __popc(peers & ((1u << lane) - 1));
    const int to = i < last ? next[digit] + before : 0;
    __syncwarp();
    if (i < last) {
      if (before == 0) next[digit] += __popc(peers);
      to_keys[to] = key;
      to_places[to] = places ? places[i] : static_cast<int32_t>(i);
    }
    __syncwarp();
  }
}

}  // namespace troupe::ops::cuda
