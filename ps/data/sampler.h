#pragma once
#include <array>
#include <cstdint>
#include <span>

namespace troupe::ps {

/// In which order an epoch visits the samples: a permutation of [0, n) that is a pure function of
/// (seed, epoch). Epochs differ by themselves, nothing has to be told to "reshuffle".
///
/// The permutation is never stored. A Feistel network permutes [0, 2^bits) and is walked until it falls below
/// n (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA'02). So any position of any epoch
/// costs the same (a resume at step 10^6 is as cheap as at step 0), workers of a process share nothing and
/// lock nothing, and a data set of 10^9 samples needs no 4 GB table. A stored shuffle reads one number a
/// sample; this computes one in about 30 ns, under 1 % of what the smallest model does with a sample.
///
/// A value; const calls are safe from any thread.
class Sampler {
 public:
  /// 0 < n <= 2^32. `shuffle` = false: every epoch is 0, 1, 2, ...
  Sampler(int64_t n, uint64_t seed, bool shuffle = true);

  int64_t size() const { return n_; }
  /// Positions [begin, begin + out.size()) of epoch `epoch`'s order; within [0, n).
  void indices(int64_t epoch, int64_t begin, std::span<uint32_t> out) const;

 private:
  static constexpr int kRounds = 8;
  using Keys = std::array<uint32_t, kRounds>;

  Keys keys_of(int64_t epoch) const;
  uint64_t permute(uint64_t position, const Keys& keys) const;

  int64_t n_;
  uint64_t seed_;
  bool shuffle_;
  int low_bits_ = 0;  ///< the network's two halves
  int high_bits_ = 0;
};

}  // namespace troupe::ps
