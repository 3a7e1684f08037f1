#pragma once
#include <troupe/kernels/ops/cuda/math.cuh>
#include <troupe/kernels/ops/cuda/row.cuh>

/// ops/layer_norm.h: a team a row of x[m, n], which is read once when it fits in the team's registers. gamma, beta [n];
/// mean, rstd [m]. All outputs are overwritten.
namespace troupe::ops::cuda {

/// y = (x - mean) rstd gamma + beta; y may be x. The variance is taken around the mean, in a second pass over
/// registers.
template <class T, int kWidth, int kTeam>
__global__ void layer_norm_rows(int64_t m, int64_t n, const T* x, const T* gamma, const T* beta, T epsilon, T* y,
                                T* mean, T* rstd) {
  const int64_t r = team_number<kTeam>();
  if (r >= m) return;
  const RowPart<T, kWidth, kTeam, 1> row(n, {x + r * n});
  Sums<T, 1> sum = Sums<T, 1>::none(), squares = Sums<T, 1>::none();
  row.each([&](int64_t, const auto& packs) {
    for (int w = 0; w < kWidth; ++w) sum.at[0] += packs.of[0].at[w];
  });
  const T mu = team_reduce<kTeam>(sum).at[0] / static_cast<T>(n);
  row.each([&](int64_t, const auto& packs) {
    for (int w = 0; w < kWidth; ++w) squares.at[0] += (packs.of[0].at[w] - mu) * (packs.of[0].at[w] - mu);
  });
  const T s = T{1} / sqrt_of(team_reduce<kTeam>(squares).at[0] / static_cast<T>(n) + epsilon);
  row.each([&](int64_t i, const auto& packs) {
    const auto g = load<kWidth>(gamma + i), b = load<kWidth>(beta + i);
    Pack<T, kWidth> out;
    for (int w = 0; w < kWidth; ++w) out.at[w] = (packs.of[0].at[w] - mu) * s * g.at[w] + b.at[w];
    store<kWidth>(out, y + r * n + i);
  });
  if (team_lane<kTeam>() != 0) return;
  mean[r] = mu;
  rstd[r] = s;
}

/// dx = rstd (g - mean_n(g) - x^ mean_n(g x^)) with g = dy gamma; dx may be dy.
template <class T, int kWidth, int kTeam>
__global__ void layer_norm_gradient_rows(int64_t m, int64_t n, const T* x, const T* gamma, const T* mean, const T* rstd,
                                         const T* dy, T* dx) {
  const int64_t r = team_number<kTeam>();
  if (r >= m) return;
  const RowPart<T, kWidth, kTeam, 2> row(n, {x + r * n, dy + r * n});
  const T mu = mean[r], s = rstd[r];
  Sums<T, 2> sums = Sums<T, 2>::none();
  row.each([&](int64_t i, const auto& packs) {
    const auto gain = load<kWidth>(gamma + i);
    for (int w = 0; w < kWidth; ++w) {
      const T g = packs.of[1].at[w] * gain.at[w];
      sums.at[0] += g;
      sums.at[1] += g * ((packs.of[0].at[w] - mu) * s);
    }
  });
  sums = team_reduce<kTeam>(sums);
  const T mean_g = sums.at[0] / static_cast<T>(n), mean_gx = sums.at[1] / static_cast<T>(n);
  row.each([&](int64_t i, const auto& packs) {
    const auto gain = load<kWidth>(gamma + i);
    Pack<T, kWidth> out;
    for (int w = 0; w < kWidth; ++w)
      out.at[w] = s * (packs.of[1].at[w] * gain.at[w] - mean_g - (packs.of[0].at[w] - mu) * s * mean_gx);
    store<kWidth>(out, dx + r * n + i);
  });
}

/// What an element adds to the gradients of gamma and beta.
template <class T>
struct LayerNormWeightTerms {
  const T *x, *mean, *rstd, *dy;
  __device__ void see(Sums<T, 2>& sums, int64_t r, int64_t, int64_t i) const {
    sums.at[0] += dy[i] * ((x[i] - mean[r]) * rstd[r]);
    sums.at[1] += dy[i];
  }
};

}  // namespace troupe::ops::cuda
