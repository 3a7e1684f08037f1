#pragma once
#include <troupe/kernels/ops/cuda/math.cuh>
#include <troupe/kernels/ops/cuda/team.cuh>
#include <troupe/kernels/ops/cuda/written.cuh>

/// The parts of ops/batch_norm.h: what an element adds to its channel, what becomes of a channel's sums, and what
/// becomes of an element then. Two passes over memory a direction: statistics, then elements.
namespace troupe::ops::cuda {

/// Count, sum and sum of squares of what one thread sees, all relative to the first of it, so that little cancels;
/// merged by the formula of Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
/// variances", 1979, as {count, mean, sum of squares around the mean}.
template <class T>
struct Moments {
  T count, shift, sum, squares;

  __device__ static Moments none() { return {T{0}, T{0}, T{0}, T{0}}; }
  __device__ void see(T x) {
    if (count == T{0}) shift = x;
    count += T{1};
    sum += x - shift;
    squares += (x - shift) * (x - shift);
  }
  __device__ T mean() const { return count > T{0} ? shift + sum / count : T{0}; }
  /// Around the mean.
  __device__ T deviations() const { return count > T{0} ? squares - sum / count * sum : T{0}; }
  __device__ void merge(const Moments& other) {
    if (other.count == T{0}) return;
    if (count == T{0}) {
      *this = other;
      return;
    }
    const T all = count + other.count, gap = other.mean() - mean();
    const T around = deviations() + other.deviations() + gap * gap * (count * (other.count / all));
    *this = {all, mean() + gap * (other.count / all), T{0}, around};
  }
};

template <class T>
struct MomentTerms {
  const T* x;
  __device__ void see(Moments<T>& moments, int64_t, int64_t, int64_t i) const { moments.see(x[i]); }
};

/// A channel as the elements need it, read in one go: y = (x - mean) scale + shift.
template <class T>
struct alignas(16) Normal {
  T mean, scale, shift, unused;
};

/// mean, variance [c] and what the elements need; overwrites all.
template <class T>
struct WriteStatistics {
  const T *gamma, *beta;
  T epsilon;
  T *mean, *variance;
  Normal<T>* normal;
  __device__ void operator()(int64_t c, const Moments<T>& moments) const {
    mean[c] = moments.mean();
    const T deviations = moments.deviations();  // of rounding errors alone it may be below 0
    variance[c] = moments.count > T{0} ? (deviations < T{0} ? T{0} : deviations) / moments.count : T{1};
    normal[c] = {mean[c], gamma[c] / sqrt_of(variance[c] + epsilon), beta[c], T{0}};
  }
};

/// The same from given statistics; a thread a channel.
template <class T>
__global__ void normals_of(int64_t channels, const T* gamma, const T* beta, const T* mean, const T* variance, T epsilon,
                           Normal<T>* normal) {
  const int64_t c = thread_number();
  if (c < channels) normal[c] = {mean[c], gamma[c] / sqrt_of(variance[c] + epsilon), beta[c], T{0}};
}

template <class T>
struct Normalise {
  const Normal<T>* normal;
  __device__ T operator()(int64_t c, int64_t, T x) const {
    const Normal<T> n = normal[c];
    return (x - n.mean) * n.scale + n.shift;
  }
};

/// What an element adds to the gradients of beta and (times rstd) gamma.
template <class T>
struct BatchNormGradientTerms {
  const T *x, *mean, *dy;
  __device__ void see(Sums<T, 2>& sums, int64_t, int64_t c, int64_t i) const {
    sums.at[0] += dy[i];
    sums.at[1] += dy[i] * (x[i] - mean[c]);
  }
};

/// A channel as dx needs it: dx = scale (dy - mean_dy - (x - mean) slope).
template <class T>
struct alignas(16) Pull {
  T mean, scale, mean_dy, slope;
};

/// dgamma, dbeta [c] (=, +=), and what dx needs. `elements` = N.
template <class T>
struct WriteBatchNormGradients {
  const T *gamma, *mean, *variance;
  T epsilon, elements;
  Written<T> dgamma, dbeta;
  Pull<T>* pull;
  __device__ void operator()(int64_t c, const Sums<T, 2>& sums) const {
    const T rstd = T{1} / sqrt_of(variance[c] + epsilon);
    dbeta.put(c, sums.at[0]);
    dgamma.put(c, sums.at[1] * rstd);
    pull[c] = {mean[c], gamma[c] * rstd, sums.at[0] / elements, sums.at[1] * rstd * rstd / elements};
  }
};

template <class T>
struct BatchNormInputGradient {
  const Pull<T>* pull;
  __device__ T operator()(int64_t c, int64_t, T dy, T x) const {
    const Pull<T> p = pull[c];
    return p.scale * (dy - p.mean_dy - (x - p.mean) * p.slope);
  }
};

}  // namespace troupe::ops::cuda
