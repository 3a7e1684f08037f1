#pragma once
#include <troupe/kernels/ops/cuda/pack.cuh>

namespace troupe::ops::cuda {

template <int kWidth, class T, class F, class... In>
__device__ Pack<T, kWidth> map_pack(F f, const Pack<In, kWidth>&... in) {
  Pack<T, kWidth> out;
  for (int k = 0; k < kWidth; ++k) out.at[k] = f(in.at[k]...);
  return out;
}

/// out[i] = f(in[i]...) for i < n, a pack a thread. out may be one of `in`.
template <int kWidth, class T, class F, class... In>
__global__ void map_elements(int64_t n, F f, T* out, const In*... in) {
  const int64_t first = thread_number() * kWidth;
  if (first + kWidth <= n)
    store<kWidth>(map_pack<kWidth, T>(f, load<kWidth>(in + first)...), out + first);
  else
    for (int64_t i = first; i < n; ++i) out[i] = f(in[i]...);
}

/// Reads and writes every element once; tensors that do not begin where packs may are taken one by one.
template <class T, class F, class... In>
void map(Stream& stream, int64_t n, F f, T* out, const In*... in) {
  if (n == 0) return;
  constexpr int kWide = kWidest<T, In...>;
  if (aligned(kWide, out, in...))
    TROUPE_LAUNCH((map_elements<kWide, T, F, In...>), blocks_for(n, kBlockThreads * kWide), kBlockThreads, 0, stream, n,
                  f, out, in...);
  else
    TROUPE_LAUNCH((map_elements<1, T, F, In...>), blocks_for(n), kBlockThreads, 0, stream, n, f, out, in...);
}

}  // namespace troupe::ops::cuda
