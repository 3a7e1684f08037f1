#pragma once
#include <cstdint>
#include <span>

#include <troupe/kernels/tensor/tensor.h>

namespace troupe {

/// sum[i] = parts[0][i] + parts[1][i] + ..., from left to right, for i in [begin, end): the same bits as a serial loop
/// over the ranks, however the range is cut. f32 in CPU memory, of equal counts; `sum` may be parts[0].
void sum_in_rank_order(std::span<const Tensor> parts, int64_t begin, int64_t end, Tensor& sum);

}  // namespace troupe
