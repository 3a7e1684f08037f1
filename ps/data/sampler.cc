#include <troupe/ps/data/sampler.h>

#include <bit>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/random.h>

namespace troupe::ps {

namespace {

/// The finaliser of MurmurHash3: every input bit changes every output bit with probability near 1/2.
uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  x ^= x >> 16;
  return x;
}

}  // namespace

Sampler::Sampler(int64_t n, uint64_t seed, bool shuffle) : n_(n), seed_(seed), shuffle_(shuffle) {
  TROUPE_CHECK(n > 0 && n <= int64_t{1} << 32, "a sampler of ", n, " samples");
  const int bits = std::bit_width(static_cast<uint64_t>(n - 1));
  high_bits_ = bits / 2;
  low_bits_ = bits - high_bits_;
}

Sampler::Keys Sampler::keys_of(int64_t epoch) const {
  Random random(derive_seed(seed_, "sampler", static_cast<uint64_t>(epoch)));
  Keys keys;
  for (uint32_t& key : keys) key = random.bits32();
  return keys;
}

uint64_t Sampler::permute(uint64_t position, const Keys& keys) const {
  const uint32_t low_mask = static_cast<uint32_t>((uint64_t{1} << low_bits_) - 1);
  const uint32_t high_mask = static_cast<uint32_t>((uint64_t{1} << high_bits_) - 1);
  // Walking from a value below n through values that are not stays on one cycle and so comes back below n;
  // the domain is less than twice n, so that this takes less than two turns on average.
  do {
    uint32_t low = static_cast<uint32_t>(position) & low_mask;
    uint32_t high = static_cast<uint32_t>(position >> low_bits_) & high_mask;
    for (int round = 0; round < kRounds; round += 2) {
      low ^= mix(high ^ keys[static_cast<size_t>(round)]) & low_mask;
      high ^= mix(low ^ keys[static_cast<size_t>(round + 1)]) & high_mask;
    }
    position = uint64_t{high} << low_bits_ | low;
  } while (position >= static_cast<uint64_t>(n_));
  return position;
}

void Sampler::indices(int64_t epoch, int64_t begin, std::span<uint32_t> out) const {
  TROUPE_CHECK(epoch >= 0 && begin >= 0 && begin + static_cast<int64_t>(out.size()) <= n_, "epoch ", epoch,
               ", positions ", begin, " + ", out.size(), " of ", n_);
  if (!shuffle_) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint32_t>(begin + static_cast<int64_t>(i));
    return;
  }
  const Keys keys = keys_of(epoch);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<uint32_t>(permute(static_cast<uint64_t>(begin) + i, keys));
}

}  // namespace troupe::ps
