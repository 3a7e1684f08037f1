#pragma once
#include <troupe/kernels/ops/cuda/pack.cuh>

namespace troupe::ops::cuda {

struct PhiloxWords {
  uint32_t at[4];
};

/// philox4x32({block, 0, 0}, seed) of kernels/base/random.h.
__device__ inline PhiloxWords philox(uint64_t block, uint64_t seed) {
  uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// ops/dropout.h: a thread draws one Philox block and decides on the (at most) four elements that are its; overwrites
/// y, which may be x. kPacked: first is a multiple of 4, and packs of 4 may begin at x and y.
template <bool kPacked, class T>
__global__ void drop(int64_t n, uint32_t threshold, T scale, uint64_t seed, int64_t first, const T* x, T* y) {
  const int64_t block = first / 4 + thread_number(), i = 4 * block - first;
  if (i >= n) return;
  const PhiloxWords words = philox(static_cast<uint64_t>(block), seed);
  if (kPacked && i + 4 <= n) {
    Pack<T, 4> pack = load<4>(x + i);
    for (int w = 0; w < 4; ++w) pack.at[w] = words.at[w] >= threshold ? pack.at[w] * scale : T{0};
    store<4>(pack, y + i);
    return;
  }
  for (int w = 0; w < 4; ++w)
    if (i + w >= 0 && i + w < n) y[i + w] = words.at[w] >= threshold ? x[i + w] * scale : T{0};
}

}  // namespace troupe::ops::cuda
