#pragma once
#include <algorithm>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/param/optimizer.h>

/// The loop that all optimizers share: a block of the gradient is summed where it stays in the first-level
/// cache, and used up before the next one, while what the blocks behind it need is on its way from memory or
/// another core. `in` and `out` may be the same memory, so that loops say `omp simd` (no element depends on
/// another) instead of `restrict`.
namespace troupe::ps {

// Measured: a push of 16 MB takes half the time that it takes without fetching ahead, since processors follow few
// streams by themselves (EPYC 7003; 512 to 2048 elements ahead do about the same). A Sapphire Rapids follows them, and
// 1024 elements ahead cost it 8 % of an Adam step, 512 ahead 2 %.
constexpr int64_t kBlockElements = 256, kAheadElements = 512;

inline void fetch(const float* values, int64_t n) {
  constexpr int64_t kLineElements = 16;  // 64 bytes
  for (int64_t i = 0; i < n; i += kLineElements) __builtin_prefetch(values + i);
}

/// Asks for the block that begins at `at` in every vector of the update, and waits for nothing.
inline void fetch_block(const SliceUpdate& u, int64_t at) {
  const int64_t n = std::min(kBlockElements, static_cast<int64_t>(u.in.size()) - at);
  if (n <= 0) return;
  for (const auto& gradient : u.gradients) fetch(gradient.data() + at, n);
  for (const auto& state : u.state) fetch(state.data() + at, n);
  fetch(u.in.data() + at, n);
  if (u.out.data() != u.in.data()) fetch(u.out.data() + at, n);
}

/// Elements [at, at + n) of the summed gradient: where it lies if one worker sent it, else in `sum`.
inline const float* sum_block(std::span<const std::span<const float>> gradients, int64_t at, int64_t n, float* sum) {
  if (gradients.size() == 1) return gradients[0].data() + at;
  const float* first = gradients[0].data() + at;
  const float* second = gradients[1].data() + at;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] = first[i] + second[i];
  for (size_t k = 2; k < gradients.size(); ++k) {
    const float* next = gradients[k].data() + at;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] += next[i];
  }
  return sum;
}

/// In double precision, where no finite float's square overflows. Eight sums side by side, always the same ones.
inline double sum_of_squares(const float* values, int64_t n) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
#pragma omp simd
    for (int k = 0; k < 8; ++k) lanes[k] += static_cast<double>(values[i + k]) * static_cast<double>(values[i + k]);
  for (; i < n; ++i) lanes[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

/// body(at, n, gradient of [at, at + n)) for the blocks of a segment, ascending. It is to hold its numbers itself
/// ([=, &u]): what it refers to might, for all a compiler knows, be changed by the floats that it stores, and is then
/// read again for every vector.
template <class Body>
void for_each_block(const SliceUpdate& u, const Segment& segment, Body body) {
  alignas(64) float sum[kBlockElements];
  for (int64_t at = segment.begin; at < segment.end; at += kBlockElements) {
    const int64_t n = std::min(kBlockElements, segment.end - at);
    fetch_block(u, at + kAheadElements);
    body(at, n, sum_block(u.gradients, at, n, sum));
  }
}

inline void apply_statistic(const SliceUpdate& u, const Segment& segment) {
  const auto scale = static_cast<float>(u.gradient_scale * u.rate_scale);
  for_each_block(u, segment, [=, &u](int64_t at, int64_t n, const float* g) {
    const float* in = u.in.data() + at;
    float* out = u.out.data() + at;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = in[i] - scale * g[i];
  });
}

/// update(segment, its weight decay) for every segment that is not a statistic; those are done here.
template <class Update>
void for_each_segment(const SliceUpdate& u, size_t states, double weight_decay, const Update& update) {
  TROUPE_CHECK(!u.gradients.empty() && u.in.size() == u.out.size() && u.state.size() == states, u.gradients.size(),
               " gradients, ", u.in.size(), " -> ", u.out.size(), " parameters, ", u.state.size(), " states of ",
               states);
  for (const auto& g : u.gradients) TROUPE_CHECK(g.size() == u.in.size(), g.size(), " of ", u.in.size());
  for (const auto& s : u.state) TROUPE_CHECK(s.size() == u.in.size(), s.size(), " of ", u.in.size());
  for (const Segment& segment : u.segments) {
    if (segment.kind == ParamKind::statistic)
      apply_statistic(u, segment);
    else
      update(segment, static_cast<float>(segment.kind == ParamKind::weight ? weight_decay : 0));
  }
}

inline float gradient_scale(const SliceUpdate& u) { return static_cast<float>(u.gradient_scale * u.clip_scale); }

inline double rate(const OptimizerOptions& options, const SliceUpdate& u) {
  return learning_rate(options, u.schedule_step) * u.rate_scale;
}

}  // namespace troupe::ps
