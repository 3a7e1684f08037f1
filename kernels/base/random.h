#pragma once
#include <array>
#include <cstdint>

namespace troupe {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): four 32-bit numbers
/// from a 128-bit counter and a 64-bit key. The same on CPU and GPU, in any order, without state.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// A seed for one purpose, so that no two streams of a run share numbers: f(global seed, what, which).
/// `what` is a short literal such as "init" or "dropout"; `which` tells apart ranks, layers or epochs.
uint64_t derive_seed(uint64_t seed, const char* what, uint64_t which = 0);

/// A stream of random numbers, the same on every machine and library (the standard's distributions are not).
/// A value type; not for use by two threads at once.
class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}

  uint32_t bits32();
  uint64_t bits64();
  /// Uniform in [0, n), without bias; n > 0.
  uint64_t below(uint64_t n);
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Standard normal (Box-Muller).
  double normal();
  /// True with probability p.
  bool chance(double p) { return uniform() < p; }

 private:
  uint64_t seed_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace troupe
