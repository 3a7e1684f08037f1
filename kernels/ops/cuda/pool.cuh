#pragma once
#include <troupe/kernels/ops/cuda/pack.cuh>

/// ops/pool.h. A thread an element of the result, which it overwrites, so that gradients need no atomics: each pixel
/// adds what the windows above it send, in the windows' order.
namespace troupe::ops::cuda {

struct PoolPlane {
  int64_t h, w, oh, ow, window, stride, padding;
};

struct Pixel {
  int64_t plane, row, column;
};

/// Element k of planes of h x w.
__device__ inline Pixel pixel_of(int64_t k, int64_t h, int64_t w, bool small) {
  const int64_t line = quotient(k, w, small), plane = quotient(line, h, small);
  return {plane, line - plane * h, k - line * w};
}

/// visit(pixel of the plane, place in the window) for the pixels of window (i, j) that lie in the image, in order.
template <class Visit>
__device__ void each_pixel(const PoolPlane& s, int64_t i, int64_t j, Visit visit) {
  const int64_t top = i * s.stride - s.padding, left = j * s.stride - s.padding;
  const int64_t last_p = min(s.window, s.h - top), last_q = min(s.window, s.w - left);
  for (int64_t p = top < 0 ? -top : 0; p < last_p; ++p)
    for (int64_t q = left < 0 ? -left : 0; q < last_q; ++q) visit((top + p) * s.w + left + q, p * s.window + q);
}

/// visit(window of the plane, place of the pixel in it) for the windows that hold a pixel, in order.
template <class Visit>
__device__ void each_window(const PoolPlane& s, int64_t row, int64_t column, Visit visit) {
  const int64_t r = row + s.padding, c = column + s.padding;
  // The first window that ends behind the pixel.
  const int64_t i0 = r < s.window ? 0 : (r - s.window) / s.stride + 1, i1 = min(s.oh - 1, r / s.stride);
  const int64_t j0 = c < s.window ? 0 : (c - s.window) / s.stride + 1, j1 = min(s.ow - 1, c / s.stride);
  for (int64_t i = i0; i <= i1; ++i)
    for (int64_t j = j0; j <= j1; ++j) visit(i * s.ow + j, (r - i * s.stride) * s.window + c - j * s.stride);
}

/// y, choice [planes, oh, ow] of x [planes, h, w]; n = all of y.
template <class T>
__global__ void max_pool_windows(int64_t n, bool small, PoolPlane s, const T* x, T* y, uint8_t* choice) {
  const int64_t k = thread_number();
  if (k >= n) return;
  const Pixel at = pixel_of(k, s.oh, s.ow, small);
  const T* plane = x + at.plane * s.h * s.w;
  T best{};
  int64_t chosen = -1;
  each_pixel(s, at.row, at.column, [&](int64_t pixel, int64_t place) {
    const T v = plane[pixel];
    // A larger one takes its place, and NaN that of what is not.
    if (chosen < 0 || (!(v <= best) && best == best)) best = v, chosen = place;
  });
  y[k] = best;
  choice[k] = static_cast<uint8_t>(chosen);
}

/// dx [planes, h, w]; n = all of dx.
template <class T>
__global__ void max_pool_gradient_pixels(int64_t n, bool small, PoolPlane s, const T* dy, const uint8_t* choice,
                                         T* dx) {
  const int64_t k = thread_number();
  if (k >= n) return;
  const Pixel at = pixel_of(k, s.h, s.w, small);
  const int64_t first = at.plane * s.oh * s.ow;
  T sum{};
  each_window(s, at.row, at.column, [&](int64_t window, int64_t place) {
    if (choice[first + window] == place) sum += dy[first + window];
  });
  dx[k] = sum;
}

template <class T>
__global__ void avg_pool_windows(int64_t n, bool small, PoolPlane s, T share, const T* x, T* y) {
  const int64_t k = thread_number();
  if (k >= n) return;
  const Pixel at = pixel_of(k, s.oh, s.ow, small);
  const T* plane = x + at.plane * s.h * s.w;
  T sum{};
  each_pixel(s, at.row, at.column, [&](int64_t pixel, int64_t) { sum += plane[pixel]; });
  y[k] = sum * share;
}

template <class T>
__global__ void avg_pool_gradient_pixels(int64_t n, bool small, PoolPlane s, T share, const T* dy, T* dx) {
  const int64_t k = thread_number();
  if (k >= n) return;
  const Pixel at = pixel_of(k, s.h, s.w, small);
  const T* windows = dy + at.plane * s.oh * s.ow;
  T sum{};
  each_window(s, at.row, at.column, [&](int64_t window, int64_t) { sum += windows[window] * share; });
  dx[k] = sum;
}

}  // namespace troupe::ops::cuda
