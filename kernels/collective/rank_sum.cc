#include <troupe/kernels/collective/rank_sum.h>

#include <algorithm>

namespace troupe {

void sum_in_rank_order(std::span<const Tensor> parts, int64_t begin, int64_t end, Tensor& sum) {
  constexpr int64_t kBlock = 2048;  // stays in the first-level cache while the ranks are added
  float* out = sum.data<float>();
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t stop = std::min(at + kBlock, end);
    const float* first = parts[0].data<float>();
    if (out != first) std::copy(first + at, first + stop, out + at);
    for (size_t rank = 1; rank < parts.size(); ++rank) {
      const float* next = parts[rank].data<float>();
#pragma omp simd
      for (int64_t i = at; i < stop; ++i) out[i] += next[i];
    }
  }
}

}  // namespace troupe
