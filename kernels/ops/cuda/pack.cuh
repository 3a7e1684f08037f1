#pragma once
#include <algorithm>
#include <cstdint>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/ops/cuda/launch.h>

namespace troupe::ops::cuda {

constexpr int kBlockThreads = 256;

/// Neighbours that one instruction reads or writes: at most 16 bytes, which is also what it takes to come near the
/// speed of memory.
template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T at[kWidth];
};

/// Elements of the widest pack of the largest of these types.
template <class... T>
constexpr int kWidest = 16 / static_cast<int>(std::max({sizeof(T)...}));

template <int kWidth, class T>
__device__ Pack<T, kWidth> load(const T* from) {
  return *reinterpret_cast<const Pack<T, kWidth>*>(from);
}

template <int kWidth, class T>
__device__ void store(const Pack<T, kWidth>& pack, T* to) {
  *reinterpret_cast<Pack<T, kWidth>*>(to) = pack;
}

/// Whether packs of `width` may begin at all of these.
template <class... T>
bool aligned(int width, const T*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % (sizeof(T) * static_cast<size_t>(width)) == 0) && ...);
}

/// The number of this thread among all of the launch, x alone.
__device__ inline int64_t thread_number() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

/// 64-bit division takes a GPU some forty instructions, more than most ops do an element.
__device__ inline int64_t quotient(int64_t a, int64_t b, bool small) {
  return small ? static_cast<int64_t>(static_cast<uint32_t>(a) / static_cast<uint32_t>(b)) : a / b;
}

/// How many blocks cover `items`, so many to a block.
inline unsigned blocks_for(int64_t items, int64_t per_block = kBlockThreads) {
  const int64_t blocks = (items + per_block - 1) / per_block;
  TROUPE_CHECK(blocks > 0 && blocks <= 0x7fffffff, items, " items are more than a launch takes");
  return static_cast<unsigned>(blocks);
}

}  // namespace troupe::ops::cuda
