#pragma once
#include <numbers>

#include <troupe/kernels/ops/cuda/channel_reduce.cuh>
#include <troupe/kernels/ops/cuda/math.cuh>

/// gelu and gelu_tanh of ops/activation.h: one element, and what ops/bias.h makes of them.
namespace troupe::ops::cuda {

struct Gelu {
  template <class T>
  __device__ static T integral(T x) {  // of the normal density
    return (T{1} + erf_of(x * static_cast<T>(std::numbers::sqrt2 / 2))) / T{2};
  }
  template <class T>
  __device__ static T value(T x) {
    return x * integral(x);
  }
  template <class T>
  __device__ static T slope(T x) {
    constexpr T kPeak = static_cast<T>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);  // the density at 0
    return integral(x) + x * kPeak * exp_of(x * x / T{-2});
  }
};

/// With GPT-2's u, (1 + tanh u) / 2 = 1 / (1 + e^(-2 u)).
struct GeluTanh {
  static constexpr double kTwice = 2 * std::numbers::inv_sqrtpi * std::numbers::sqrt2, kCubic = 0.044715;

  template <class T>
  __device__ static T gate(T x) {
    return sigmoid(static_cast<T>(kTwice) * x * (T{1} + static_cast<T>(kCubic) * x * x));
  }
  template <class T>
  __device__ static T value(T x) {
    return x * gate(x);
  }
  template <class T>
  __device__ static T slope(T x) {
    const T s = gate(x);
    return s + x * s * (T{1} - s) * static_cast<T>(kTwice) * (T{1} + static_cast<T>(3 * kCubic) * x * x);
  }
};

/// x, dy, dx [rows, columns]: dx = dy gelu'(x + bias), partial[slab, column] = what rows [slab rows_per_slab, ...) of
/// dx add up to. A block has kTileRows rows at a time of kTileColumns packs; columns is a multiple of kWidth, and dx
/// may be dy.
template <class Form, int kWidth, class T>
__global__ void bias_gelu_gradient_columns(int64_t rows, int64_t columns, int64_t rows_per_slab, const T* x,
                                           const T* bias, const T* dy, T* dx, Sums<T, 1>* partial) {
  const int pack_in_tile = static_cast<int>(threadIdx.x % kTileColumns);
  const int row_in_tile = static_cast<int>(threadIdx.x / kTileColumns);
  const int64_t c = (int64_t{blockIdx.x} * kTileColumns + pack_in_tile) * kWidth, slab = blockIdx.y;
  const int64_t last = min(rows, (slab + 1) * rows_per_slab);
  auto mine = Sums<T, kWidth>::none();
  if (c < columns) {
    const auto add = load<kWidth>(bias + c);
    for (int64_t o = slab * rows_per_slab + row_in_tile; o < last; o += kTileRows) {
      const int64_t at = o * columns + c;
      const auto in = load<kWidth>(x + at), d = load<kWidth>(dy + at);
      Pack<T, kWidth> out;
      for (int k = 0; k < kWidth; ++k) {
        out.at[k] = d.at[k] * Form::slope(in.at[k] + add.at[k]);
        mine.at[k] += out.at[k];
      }
      store<kWidth>(out, dx + at);
    }
  }
  using Tile = Sums<T, kWidth>;
  TROUPE_SHARED(Tile, tile, kBlockThreads);
  tile[threadIdx.x] = mine;
  __syncthreads();
  if (row_in_tile > 0 || c >= columns) return;
  for (int r = 1; r < kTileRows; ++r) mine.merge(tile[r * kTileColumns + pack_in_tile]);
  for (int k = 0; k < kWidth; ++k) partial[slab * columns + c + k].at[0] = mine.at[k];
}

}  // namespace troupe::ops::cuda
