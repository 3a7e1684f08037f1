#pragma once
#include <troupe/kernels/ops/cuda/pack.cuh>

namespace troupe::ops::cuda {

/// y[k, :] = table[ids[k], :] for table [rows, width], n = all of y; a pack a thread, width a multiple of kWidth.
/// An id outside [0, rows) stops the kernel.
template <int kWidth, class T>
__global__ void gather_rows(int64_t n, int64_t rows, int64_t width, const T* table, const int32_t* ids, T* y) {
  const int64_t first = thread_number() * kWidth;
  if (first >= n) return;
  const int64_t k = quotient(first, width, n <= 0xffffffff), column = first - k * width;
  const int64_t id = ids[k];
  if (id < 0 || id >= rows) __trap();
  store<kWidth>(load<kWidth>(table + id * width + column), y + first);
}

/// For every id of sorted keys[n]: table[id, :] = (add ? table[id, :] : 0) + dy[places[k], :] for its k, ascending. A
/// block a key, of which only the first of equals works; `width` is a multiple of kWidth.
template <int kWidth, class T>
__global__ void add_sorted_rows(int64_t n, int64_t width, bool add, const int32_t* keys, const int32_t* places,
                                const T* dy, T* table) {
  const int64_t first = blockIdx.x;
  const int32_t id = keys[first];
  if (first > 0 && keys[first - 1] == id) return;
  for (int64_t column = int64_t{threadIdx.x} * kWidth; column < width; column += int64_t{blockDim.x} * kWidth) {
    T* to = table + id * width + column;
    Pack<T, kWidth> sum{};
    if (add) sum = load<kWidth>(table + id * width + column);
    for (int64_t k = first; k < n && keys[k] == id; ++k) {
      const Pack<T, kWidth> term = load<kWidth>(dy + places[k] * width + column);
      for (int w = 0; w < kWidth; ++w) sum.at[w] += term.at[w];
    }
    store<kWidth>(sum, to);
  }
}

}  // namespace troupe::ops::cuda
