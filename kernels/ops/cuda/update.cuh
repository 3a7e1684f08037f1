#pragma once
#include <troupe/kernels/ops/cuda/reduce.cuh>

/// ops/update.h: w and up to two vectors of state [n] are read, updated and written in one pass. The formulas and their
/// sources are in ps/param/optimizers.
namespace troupe::ops::cuda {

/// step(g, w, a, b) for each element. Of the state vectors a and b kStates are read and the first kWritten written; the
/// others may be null. A pack a thread.
template <int kWidth, int kStates, int kWritten, class F>
__global__ void step_elements(int64_t n, F step, const float* g, float* w, float* a, float* b) {
  const int64_t first = thread_number() * kWidth;
  if (first + kWidth <= n) {
    const Pack<float, kWidth> gradient = load<kWidth>(g + first);
    Pack<float, kWidth> weight = load<kWidth>(w + first), state_a{}, state_b{};
    if (kStates > 0) state_a = load<kWidth>(a + first);
    if (kStates > 1) state_b = load<kWidth>(b + first);
    for (int k = 0; k < kWidth; ++k) step(gradient.at[k], weight.at[k], state_a.at[k], state_b.at[k]);
    store<kWidth>(weight, w + first);
    if (kWritten > 0) store<kWidth>(state_a, a + first);
    if (kWritten > 1) store<kWidth>(state_b, b + first);
    return;
  }
  for (int64_t i = first; i < n; ++i) {
    float state_a = kStates > 0 ? a[i] : 0, state_b = kStates > 1 ? b[i] : 0;
    step(g[i], w[i], state_a, state_b);
    if (kWritten > 0) a[i] = state_a;
    if (kWritten > 1) b[i] = state_b;
  }
}

struct SgdRule {
  float rate, scale, decay;
  __device__ void operator()(float g, float& w, float&, float&) const { w -= rate * (scale * g + decay * w); }
};

/// The direction is ahead x gradient + behind x buffer: (0, 1), or Nesterov's (1, momentum).
struct MomentumRule {
  float rate, scale, decay, momentum, ahead, behind;
  __device__ void operator()(float g, float& w, float& buffer, float&) const {
    const float d = scale * g + decay * w;
    buffer = momentum * buffer + d;
    w -= rate * (ahead * d + behind * buffer);
  }
};

/// l2 for Adam, keep = 1 - rate decay for AdamW; step and correction hold the bias corrections.
struct AdamRule {
  float step, scale, l2, keep, b1, a1, b2, a2, correction, epsilon;
  __device__ void operator()(float g, float& w, float& m, float& v) const {
    const float d = scale * g + l2 * w;
    m = b1 * m + a1 * d;
    v = b2 * v + a2 * d * d;
    w = keep * w - step * m / (sqrtf(v) * correction + epsilon);
  }
};

struct AdagradRule {
  float rate, scale, decay, epsilon;
  __device__ void operator()(float g, float& w, float& sum, float&) const {
    const float d = scale * g + decay * w;
    sum += d * d;
    w -= rate * d / (sqrtf(sum) + epsilon);
  }
};

template <bool kMomentum>
struct RmspropRule {
  float rate, scale, decay, alpha, rest, epsilon, momentum;
  __device__ void operator()(float g, float& w, float& average, float& buffer) const {
    const float d = scale * g + decay * w;
    average = alpha * average + rest * d * d;
    float direction = d / (sqrtf(average) + epsilon);
    if (kMomentum) buffer = direction = momentum * buffer + direction;
    w -= rate * direction;
  }
};

struct LambRule {
  float scale, decay, b1, a1, b2, a2, correction1, correction2, epsilon;
  __device__ float direction(float m, float v, float w) const {
    return m * correction1 / (sqrtf(v * correction2) + epsilon) + decay * w;
  }
};

/// m, v (=) their next values; partial[block] = the sums of w^2 and of the direction's squares over this block's
/// threads, which stride over all. Sums are double: no finite float's square overflows.
static __global__ void lamb_moments(int64_t n, LambRule rule, const float* g, const float* w, float* m, float* v,
                                    Sums<double, 2>* partial) {
  Sums<double, 2> squares = Sums<double, 2>::none();
  for (int64_t i = thread_number(); i < n; i += int64_t{gridDim.x} * kBlockThreads) {
    const float d = rule.scale * g[i];
    const float mean = rule.b1 * m[i] + rule.a1 * d, square = rule.b2 * v[i] + rule.a2 * d * d;
    m[i] = mean;
    v[i] = square;
    const double weight = static_cast<double>(w[i]),
                 direction = static_cast<double>(rule.direction(mean, square, w[i]));
    squares.at[0] += weight * weight;
    squares.at[1] += direction * direction;
  }
  squares = team_reduce<kBlockThreads>(squares);
  if (threadIdx.x == 0) partial[blockIdx.x] = squares;
}

/// step = rate |w| / |direction|, or rate where either norm is 0. One block.
static __global__ void lamb_step(int64_t blocks, double rate, const Sums<double, 2>* partial, float* step) {
  Sums<double, 2> squares = Sums<double, 2>::none();
  for (int64_t b = threadIdx.x; b < blocks; b += kBlockThreads) squares.merge(partial[b]);
  squares = team_reduce<kBlockThreads>(squares);
  const bool defined = squares.at[0] > 0 && squares.at[1] > 0;
  if (threadIdx.x == 0) *step = static_cast<float>(rate * (defined ? sqrt(squares.at[0] / squares.at[1]) : 1));
}

/// w -= step direction, as step_elements calls it: g is not looked at, and the state not changed.
struct LambMove {
  LambRule rule;
  const float* step;
  __device__ void operator()(float, float& w, float& m, float& v) const { w -= *step * rule.direction(m, v, w); }
};

}  // namespace troupe::ops::cuda
