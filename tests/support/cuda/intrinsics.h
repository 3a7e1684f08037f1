#pragma once
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include <tests/support/cuda/block_run.h>

/// CUDA's functions for threads of a warp or block, in CUDA's names and with its meaning, on one operating system
/// thread. What CUDA leaves undefined is a KernelFault or gives 0xFF in all bytes.

namespace troupe::test::cuda {

inline int lane() {
  return static_cast<int>((here.thread.x + here.threads.x * (here.thread.y + here.threads.y * here.thread.z)) % 32);
}

template <class T>
T shuffle(unsigned mask, T value, int source, const Site& site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = call_warp(WarpCall::shuffle, mask, bits, source, site);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace troupe::test::cuda

using TroupeCallSite = ::troupe::test::cuda::Site;

inline void __syncthreads(TroupeCallSite site = TroupeCallSite::current()) {
  ::troupe::test::cuda::wait_for_block(site);
}

inline void __syncwarp(unsigned mask = ~0u, TroupeCallSite site = TroupeCallSite::current()) {
  ::troupe::test::cuda::call_warp(::troupe::test::cuda::WarpCall::sync, mask, 0, 0, site);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, TroupeCallSite site = TroupeCallSite::current()) {
  const int lane = ::troupe::test::cuda::lane();
  return ::troupe::test::cuda::shuffle(mask, value, lane / width * width + source % width, site);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, TroupeCallSite site = TroupeCallSite::current()) {
  return ::troupe::test::cuda::shuffle(mask, value, ::troupe::test::cuda::lane() ^ bits, site);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   TroupeCallSite site = TroupeCallSite::current()) {
  const int lane = ::troupe::test::cuda::lane(), source = lane + static_cast<int>(delta);
  return ::troupe::test::cuda::shuffle(mask, value, source < (lane / width + 1) * width ? source : lane, site);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 TroupeCallSite site = TroupeCallSite::current()) {
  const int lane = ::troupe::test::cuda::lane(), source = lane - static_cast<int>(delta);
  return ::troupe::test::cuda::shuffle(mask, value, source >= lane / width * width ? source : lane, site);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, TroupeCallSite site = TroupeCallSite::current()) {
  using namespace ::troupe::test::cuda;
  return static_cast<unsigned>(call_warp(WarpCall::ballot, mask, predicate != 0, 0, site));
}

inline int __any_sync(unsigned mask, int predicate, TroupeCallSite site = TroupeCallSite::current()) {
  return __ballot_sync(mask, predicate, site) != 0;
}

inline int __all_sync(unsigned mask, int predicate, TroupeCallSite site = TroupeCallSite::current()) {
  return __ballot_sync(mask, predicate, site) == mask;
}

template <class T>
unsigned __match_any_sync(unsigned mask, T value, TroupeCallSite site = TroupeCallSite::current()) {
  static_assert(std::is_integral_v<T>);
  using namespace ::troupe::test::cuda;
  return static_cast<unsigned>(call_warp(WarpCall::match, mask, static_cast<uint64_t>(value), 0, site));
}

[[noreturn]] inline void __trap(TroupeCallSite site = TroupeCallSite::current()) { ::troupe::test::cuda::trap(site); }

// Threads are never interrupted between two waits.
template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  const T before = *at;
  *at = before + value;
  return before;
}

using std::max;
using std::min;

inline int __popc(unsigned bits) { return std::popcount(bits); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }

// Rounded by themselves, as the emulation is compiled without contraction.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
