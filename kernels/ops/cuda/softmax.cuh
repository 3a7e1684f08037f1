#pragma once
#include <troupe/kernels/ops/cuda/math.cuh>
#include <troupe/kernels/ops/cuda/row.cuh>

namespace troupe::ops::cuda {

/// The largest of what was seen, and where: the first of equals. NaN is passed over.
template <class T>
struct Largest {
  int64_t place;
  T value;

  __device__ static Largest none() { return {INT64_MAX, static_cast<T>(-INFINITY)}; }
  __device__ void see(T other, int64_t other_place) {
    if (other > value || (other == value && other_place < place)) value = other, place = other_place;
  }
  __device__ void merge(const Largest& other) { see(other.value, other.place); }
};

/// A team a row of logits [n, classes], which is read once when it fits in the team's registers:
///   probabilities[r, :] = softmax of the row; may be `logits`.
///   outcome[r] = -log probability of the label, outcome[n + r] = 1 where the largest logit is the label's, else 0
/// Overwrites both. A label outside [0, classes) stops the kernel.
template <class T, int kWidth, int kTeam>
__global__ void softmax_rows(int64_t n, int64_t classes, const T* logits, const int32_t* labels, T* probabilities,
                             double* outcome) {
  const int64_t r = team_number<kTeam>();
  if (r >= n) return;
  const RowPart<T, kWidth, kTeam, 1> row(classes, {logits + r * classes});
  const int64_t label = labels[r];
  if (label < 0 || label >= classes) __trap();

  Largest<T> top = Largest<T>::none();
  // The exponentials, and the label's logit, which one thread has; nobody reads it from memory, where it may be gone.
  Sums<T, 2> sums = Sums<T, 2>::none();
  row.each([&](int64_t i, const auto& packs) {
    for (int w = 0; w < kWidth; ++w) {
      top.see(packs.of[0].at[w], i + w);
      if (i + w == label) sums.at[1] = packs.of[0].at[w];
    }
  });
  top = team_reduce<kTeam>(top);
  row.each([&](int64_t, const auto& packs) {
    for (int w = 0; w < kWidth; ++w) sums.at[0] += exp_of(packs.of[0].at[w] - top.value);
  });
  sums = team_reduce<kTeam>(sums);
  const T scale = T{1} / sums.at[0];
  row.each([&](int64_t i, const auto& packs) {
    Pack<T, kWidth> p;
    for (int w = 0; w < kWidth; ++w) p.at[w] = exp_of(packs.of[0].at[w] - top.value) * scale;
    store<kWidth>(p, probabilities + r * classes + i);
  });
  if (team_lane<kTeam>() != 0) return;
  outcome[r] =
      log(static_cast<double>(sums.at[0])) - (static_cast<double>(sums.at[1]) - static_cast<double>(top.value));
  outcome[n + r] = top.place == label && sums.at[0] == sums.at[0] ? 1 : 0;
}

/// to[k] = the sum of outcome[k n, (k + 1) n) for block k.
static __global__ void sum_outcomes(int64_t n, const double* outcome, double* totals) {
  const int64_t k = blockIdx.x;
  Sums<double, 1> sum = Sums<double, 1>::none();
  for (int64_t r = threadIdx.x; r < n; r += kBlockThreads) sum.at[0] += outcome[k * n + r];
  sum = team_reduce<kBlockThreads>(sum);
  if (threadIdx.x == 0) totals[k] = sum.at[0];
}

/// d[i] = p[i] - (1 where i is the label's place of its row). Overwrites; d may be p.
template <class T>
struct SubtractLabel {
  int64_t classes;
  const int32_t* labels;
  __device__ T operator()(int64_t r, int64_t c, T p) const {
    const int64_t label = labels[r];
    if (label < 0 || label >= classes) __trap();
    return c == label ? p - T{1} : p;
  }
};

}  // namespace troupe::ops::cuda
