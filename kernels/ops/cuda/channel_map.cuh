#pragma once
#include <troupe/kernels/ops/internal/tensors.h>
#include <troupe/kernels/ops/cuda/map.cuh>

namespace troupe::ops::cuda {

/// out[k] = f(c, i, in[k]...) for the n elements of a tensor [n / (channels inner), channels, inner], where element k
/// is the i-th of its channel's `inner`. A pack a thread; out may be one of `in`. Divides once a pack and counts from
/// there.
template <int kWidth, class T, class F, class... In>
__global__ void map_channel_elements(int64_t n, int64_t channels, int64_t inner, F f, T* out, const In*... in) {
  const int64_t first = thread_number() * kWidth;
  if (first >= n) return;
  const bool small = n <= 0xffffffff;
  const int64_t plane = quotient(first, inner, small);
  int64_t i = first - plane * inner, c = plane - quotient(plane, channels, small) * channels;
  const auto next = [&] {
    if (++i < inner) return;
    i = 0;
    if (++c == channels) c = 0;
  };
  const auto value = [&](const In&... x) {
    const T y = f(c, i, x...);
    next();
    return y;
  };
  if (first + kWidth <= n)
    store<kWidth>(map_pack<kWidth, T>(value, load<kWidth>(in + first)...), out + first);
  else
    for (int64_t k = first; k < n; ++k) out[k] = value(in[k]...);
}

template <class T, class F, class... In>
void map_channels(Stream& stream, const Channels& shape, F f, T* out, const In*... in) {
  const int64_t n = shape.outer * shape.count * shape.inner;
  if (n == 0) return;
  constexpr int kWide = kWidest<T, In...>;
  if (aligned(kWide, out, in...))
    TROUPE_LAUNCH((map_channel_elements<kWide, T, F, In...>), blocks_for(n, kBlockThreads * kWide), kBlockThreads, 0,
                  stream, n, shape.count, shape.inner, f, out, in...);
  else
    TROUPE_LAUNCH((map_channel_elements<1, T, F, In...>), blocks_for(n), kBlockThreads, 0, stream, n, shape.count,
                  shape.inner, f, out, in...);
}

}  // namespace troupe::ops::cuda
