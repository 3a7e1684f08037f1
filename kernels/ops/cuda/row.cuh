#pragma once
#include <type_traits>

#include <troupe/kernels/ops/cuda/team.cuh>

namespace troupe::ops::cuda {

/// Rows up to here are a warp's, longer ones a block's.
constexpr int64_t kWarpRow = 1024;

/// One thread's part of a row of each of kInputs matrices [m, n]: packs lane, lane + kTeam, ... The first 32 elements
/// of each stay in registers, so that a kernel may go over its row several times and read memory once; what a longer
/// row has beyond is read again. n is a multiple of kWidth.
template <class T, int kWidth, int kTeam, int kInputs>
class RowPart {
 public:
  __device__ RowPart(int64_t n, const T* const (&from)[kInputs]) : n_(n) {
    for (int k = 0; k < kInputs; ++k) from_[k] = from[k];
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const int64_t i = at(h);
      if (i >= n_) continue;
      for (int k = 0; k < kInputs; ++k) held_[h].of[k] = load<kWidth>(from_[k] + i);
    }
  }

  struct Packs {
    Pack<T, kWidth> of[kInputs];
  };

  /// visit(i, packs) for all packs of this thread, ascending: packs.of[k].at[w] is element i + w of input k.
  template <class Visit>
  __device__ void each(Visit visit) const {
#pragma unroll
    for (int h = 0; h < kHeld; ++h)
      if (at(h) < n_) visit(at(h), held_[h]);
    for (int64_t i = at(kHeld); i < n_; i += kTeam * kWidth) {
      Packs packs;
      for (int k = 0; k < kInputs; ++k) packs.of[k] = load<kWidth>(from_[k] + i);
      visit(i, packs);
    }
  }

 private:
  static constexpr int kHeld = 32 / kWidth;
  __device__ int64_t at(int h) const { return (int64_t{h} * kTeam + team_lane<kTeam>()) * kWidth; }

  int64_t n_;
  const T* from_[kInputs];
  Packs held_[kHeld];
};

template <int kValue>
using Constant = std::integral_constant<int, kValue>;

/// Calls launch(Constant<kWidth>, Constant<kTeam>, blocks) as it fits m rows of n elements that begin at `pointers`.
template <class Launch, class T, class... More>
void over_rows(int64_t m, int64_t n, Launch launch, const T* pointer, const More*... more) {
  if (m == 0) return;
  const auto with_width = [&](auto width) {
    if (n <= kWarpRow)
      launch(width, Constant<kWarp>{}, blocks_for(m, kBlockThreads / kWarp));
    else
      launch(width, Constant<kBlockThreads>{}, blocks_for(m, 1));
  };
  constexpr int kWide = kWidest<T>;
  if (n % kWide == 0 && aligned(kWide, pointer, more...))
    with_width(Constant<kWide>{});
  else
    with_width(Constant<1>{});
}

}  // namespace troupe::ops::cuda
