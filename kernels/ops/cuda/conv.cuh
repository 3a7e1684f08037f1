#pragma once
#include <troupe/kernels/ops/cuda/pack.cuh>

/// The parts of a convolution around its product: a matrix of patches with a row for every weight of an output channel
/// and a column for every place of the kernel in every image, so that one product convolves many images.
namespace troupe::ops::cuda {

/// A convolution's sizes. Images [images, c, h, w] under a kernel of kh x kw that stops at oh x ow places.
struct PatchShape {
  int64_t images, c, h, w, kh, kw, oh, ow, stride, padding;

  __device__ __host__ int64_t rows() const { return c * kh * kw; }
  __device__ __host__ int64_t places() const { return oh * ow; }
  __device__ __host__ int64_t columns() const { return images * places(); }
  __device__ __host__ int64_t pixels() const { return images * c * h * w; }
};

/// col[(channel, p, q), (image, i, j)] = x[image, channel, i stride + p - padding, j stride + q - padding], 0 outside.
/// A thread a channel and column: neighbours write neighbours.
template <class T>
__global__ void gather_patches(PatchShape s, bool small, const T* x, T* col) {
  const int64_t k = thread_number(), columns = s.columns();
  if (k >= s.c * columns) return;
  const int64_t channel = quotient(k, columns, small), column = k - channel * columns;
  const int64_t image = quotient(column, s.places(), small), place = column - image * s.places();
  const int64_t i = quotient(place, s.ow, small), j = place - i * s.ow;
  const T* plane = x + (image * s.c + channel) * s.h * s.w;
  T* to = col + channel * s.kh * s.kw * columns + column;
  for (int64_t p = 0; p < s.kh; ++p)
    for (int64_t q = 0; q < s.kw; ++q, to += columns) {
      const int64_t row = i * s.stride + p - s.padding, at = j * s.stride + q - s.padding;
      *to = row >= 0 && row < s.h && at >= 0 && at < s.w ? plane[row * s.w + at] : T{0};
    }
}

/// x = every element of `col` summed up at the pixel that it would be gathered from, in the order of its rows; a thread
/// a pixel. Overwrites.
template <class T>
__global__ void sum_patches(PatchShape s, bool small, const T* col, T* x) {
  const int64_t k = thread_number();
  if (k >= s.pixels()) return;
  const int64_t line = quotient(k, s.w, small), plane = quotient(line, s.h, small), image = quotient(plane, s.c, small);
  const int64_t row = line - plane * s.h + s.padding, at = k - line * s.w + s.padding, channel = plane - image * s.c;
  const int64_t columns = s.columns();
  const T* from = col + channel * s.kh * s.kw * columns + image * s.places();
  T sum{};
  for (int64_t p = 0; p < s.kh; ++p)
    for (int64_t q = 0; q < s.kw; ++q, from += columns) {
      const int64_t down = row - p, right = at - q;
      if (down < 0 || right < 0) continue;
      const int64_t i = quotient(down, s.stride, small), j = quotient(right, s.stride, small);
      if (i * s.stride == down && i < s.oh && j * s.stride == right && j < s.ow) sum += from[i * s.ow + j];
    }
  x[k] = sum;
}

/// y[b, a, i] = f(a, x[a, b, i]) for x [a, b, inner]: the first two dimensions change places. Overwrites; runs of
/// `inner` stay together, so that both sides are read and written in order for all but the smallest images.
template <class T, class F>
__global__ void swap_first_two(int64_t n, bool small, int64_t a, int64_t b, int64_t inner, F f, const T* x, T* y) {
  const int64_t k = thread_number();
  if (k >= n) return;
  const int64_t pair = quotient(k, inner, small), at_b = quotient(pair, a, small), at_a = pair - at_b * a;
  y[k] = f(at_a, x[(at_a * b + at_b) * inner + k - pair * inner]);
}

struct Unchanged {
  template <class T>
  __device__ T operator()(int64_t, T x) const {
    return x;
  }
};

template <class T>
struct BiasAndRelu {
  const T* bias;  // or nullptr
  bool relu;
  __device__ T operator()(int64_t channel, T x) const {
    const T y = bias ? x + bias[channel] : x;
    return relu && y < T{0} ? T{0} : y;
  }
};

}  // namespace troupe::ops::cuda
