#pragma once
#include <troupe/kernels/ops/cuda/team.cuh>

/// ops/reduce.h: sums in double precision over a whole tensor. Which thread adds what, and in what order, follows from
/// the count alone.
namespace troupe::ops::cuda {

/// Elements that one thread takes at a time: what a pack holds, whether or not it may be read as one.
template <class T>
constexpr int kGroup = 16 / sizeof(T);

/// partial[block] = the sum of f(x[i]) over the groups of this block's threads, which stride over all of x[n].
template <bool kPacked, class T, class F>
__global__ void reduce_elements(int64_t n, F f, const T* x, Sums<double, 1>* partial) {
  Sums<double, 1> sum = Sums<double, 1>::none();
  const int64_t stride = int64_t{gridDim.x} * kBlockThreads * kGroup<T>;
#pragma unroll 4
  for (int64_t i = thread_number() * kGroup<T>; i < n; i += stride) {
    if (kPacked && i + kGroup<T> <= n) {
      const auto pack = load<kGroup<T>>(x + i);
      for (int w = 0; w < kGroup<T>; ++w) sum.at[0] += f(pack.at[w]);
    } else {
      for (int64_t k = i; k < min(n, i + kGroup<T>); ++k) sum.at[0] += f(x[k]);
    }
  }
  sum = team_reduce<kBlockThreads>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// totals[k] = the sum of partial[blocks].at[k]. One block.
template <int K>
__global__ void reduce_partials(int64_t blocks, const Sums<double, K>* partial, double* totals) {
  Sums<double, K> sums = Sums<double, K>::none();
  for (int64_t b = threadIdx.x; b < blocks; b += kBlockThreads) sums.merge(partial[b]);
  sums = team_reduce<kBlockThreads>(sums);
  if (threadIdx.x > 0) return;
  for (int k = 0; k < K; ++k) totals[k] = sums.at[k];
}

/// How many blocks take n elements of a type; each writes one partial sum.
template <class T>
unsigned reduce_blocks(int64_t n) {
  return static_cast<unsigned>(std::clamp<int64_t>(n / (int64_t{4} * kBlockThreads * kGroup<T>), 1, 1024));
}

/// total = the sum of f(x[i]), 0 of no elements. `partial` has room for reduce_blocks<T>(n).
template <class T, class F>
void reduce(Stream& stream, int64_t n, F f, const T* x, Sums<double, 1>* partial, double* total) {
  const unsigned blocks = reduce_blocks<T>(n);
  if (aligned(kGroup<T>, x))
    TROUPE_LAUNCH((reduce_elements<true, T, F>), blocks, kBlockThreads, 0, stream, n, f, x, partial);
  else
    TROUPE_LAUNCH((reduce_elements<false, T, F>), blocks, kBlockThreads, 0, stream, n, f, x, partial);
  TROUPE_LAUNCH(reduce_partials<1>, 1, kBlockThreads, 0, stream, int64_t{blocks}, partial, total);
}

}  // namespace troupe::ops::cuda
