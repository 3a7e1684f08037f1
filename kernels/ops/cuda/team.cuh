#pragma once
#include <cstring>

#include <troupe/kernels/ops/cuda/pack.cuh>

/// Threads that work on one thing together: a warp (kTeam = 32), a whole block (kTeam = kBlockThreads), or one.
///
/// What they reduce is an accumulator: a plain struct of 4-byte words with `static none()`, and `merge(other)`. Orders
/// are fixed, so the same inputs give the same bits.
namespace troupe::ops::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

/// K sums side by side.
template <class T, int K>
struct Sums {
  T at[K];

  __device__ static Sums none() {
    Sums s;
    for (int k = 0; k < K; ++k) s.at[k] = T{0};
    return s;
  }
  __device__ void merge(const Sums& other) {
    for (int k = 0; k < K; ++k) at[k] += other.at[k];
  }
};

/// The value of lane (mine ^ bits).
template <class A>
__device__ A shuffle_xor(const A& value, int bits) {
  static_assert(sizeof(A) % sizeof(unsigned) == 0);
  constexpr int kWords = sizeof(A) / sizeof(unsigned);
  unsigned words[kWords];
  memcpy(words, &value, sizeof(A));
  for (int k = 0; k < kWords; ++k) words[k] = __shfl_xor_sync(kAllLanes, words[k], bits);
  A other;
  memcpy(&other, words, sizeof(A));
  return other;
}

/// The merged accumulators of a team, for each of its threads; where merging does not commute to the bit only the
/// first thread's is to be used. All threads of the team call it, and of the block where that is the team.
template <int kTeam, class A>
__device__ A team_reduce(A mine) {
  for (int bits = kWarp / 2; bits > 0; bits /= 2) mine.merge(shuffle_xor(mine, bits));
  if constexpr (kTeam > kWarp) {
    constexpr int kWarps = kTeam / kWarp;
    TROUPE_SHARED(A, of_warp, kWarps);
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
    __syncthreads();
    mine = of_warp[0];
    for (int w = 1; w < kWarps; ++w) mine.merge(of_warp[w]);
    __syncthreads();  // the next call writes to the same memory
  }
  return mine;
}

/// Which of its launch's teams this thread belongs to, and where it is in it. Blocks have kBlockThreads.
template <int kTeam>
__device__ int64_t team_number() {
  return int64_t{blockIdx.x} * (kBlockThreads / kTeam) + threadIdx.x / kTeam;
}
template <int kTeam>
__device__ int team_lane() {
  return static_cast<int>(threadIdx.x % kTeam);
}

}  // namespace troupe::ops::cuda
