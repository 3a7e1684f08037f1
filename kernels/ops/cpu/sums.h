#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include <troupe/kernels/ops/write.h>

namespace troupe::ops::cpu {

/// Sum of f(0) + ... + f(n - 1) kept in 16 interleaved parts of type T: vector registers, and rounding errors
/// that grow with n / 16. The order does not depend on the width of the machine's vectors.
template <class T, class F>
T lane_sum(int64_t n, F f) {
  constexpr int kLanes = 16;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += f(i + lane);
  for (; i < n; ++i) lanes[i % kLanes] += f(i);
  for (int width = kLanes / 2; width; width /= 2)
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  return lanes[0];
}

/// Rows of a matrix whose sum is kept in the matrix's type.
constexpr int64_t kSumRows = 64;

/// sums[c] = the sum of f(o, c, i) over o and over the elements i = ((o channels) + c) inner + ... of channel c.
/// Partial sums of a row (or of kSumRows rows, when inner = 1) are of type T, the rest in double precision.
template <class T, class F>
std::vector<double> channel_sums(int64_t outer, int64_t channels, int64_t inner, F f) {
  std::vector<double> sums(static_cast<size_t>(channels));
  if (inner != 1) {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t first = (o * channels + c) * inner;
        sums[static_cast<size_t>(c)] += lane_sum<T>(inner, [&](int64_t i) { return f(o, c, first + i); });
      }
    return sums;
  }
  std::vector<T> rows(static_cast<size_t>(channels));
  T* const partial = rows.data();
  for (int64_t begin = 0; begin < outer; begin += kSumRows) {
    std::fill(rows.begin(), rows.end(), T{});
    for (int64_t o = begin; o < std::min(begin + kSumRows, outer); ++o)
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) partial[c] += f(o, c, o * channels + c);
    for (int64_t c = 0; c < channels; ++c) sums[static_cast<size_t>(c)] += partial[c];
  }
  return sums;
}

/// to[c] (=, +=) sums[c].
template <class T>
void store(const std::vector<double>& sums, Write write, T* to) {
  for (size_t c = 0; c < sums.size(); ++c)
    to[c] = static_cast<T>(write == Write::add ? to[c] + sums[c] : sums[c]);
}

}  // namespace troupe::ops::cpu
