#pragma once
#include <troupe/kernels/ops/cuda/math.cuh>
#include <troupe/kernels/ops/cuda/pack.cuh>

/// swiglu of ops/activation.h: x [m, 2 w] holds a gate and a value side by side, y and dy are [m, w], n = m w. A pack
/// of y a thread; w is a multiple of kWidth. Outputs are overwritten.
namespace troupe::ops::cuda {

/// Where the gates of a pack of y begin; the values lie w behind.
__device__ inline int64_t gate_of(int64_t i, int64_t n, int64_t w) { return i + quotient(i, w, n <= 0xffffffff) * w; }

template <int kWidth, class T>
__global__ void swiglu_elements(int64_t n, int64_t w, const T* x, T* y) {
  const int64_t i = thread_number() * kWidth;
  if (i >= n) return;
  const int64_t gate = gate_of(i, n, w);
  const Pack<T, kWidth> a = load<kWidth>(x + gate), b = load<kWidth>(x + gate + w);
  Pack<T, kWidth> out;
  for (int k = 0; k < kWidth; ++k) out.at[k] = a.at[k] * sigmoid(a.at[k]) * b.at[k];
  store<kWidth>(out, y + i);
}

/// dx may be x.
template <int kWidth, class T>
__global__ void swiglu_gradient_elements(int64_t n, int64_t w, const T* x, const T* dy, T* dx) {
  const int64_t i = thread_number() * kWidth;
  if (i >= n) return;
  const int64_t gate = gate_of(i, n, w);
  const Pack<T, kWidth> a = load<kWidth>(x + gate), b = load<kWidth>(x + gate + w), d = load<kWidth>(dy + i);
  Pack<T, kWidth> da, db;
  for (int k = 0; k < kWidth; ++k) {
    const T s = sigmoid(a.at[k]);
    da.at[k] = d.at[k] * b.at[k] * s * (T{1} + a.at[k] * (T{1} - s));
    db.at[k] = d.at[k] * a.at[k] * s;
  }
  store<kWidth>(da, dx + gate);
  store<kWidth>(db, dx + gate + w);
}

}  // namespace troupe::ops::cuda
