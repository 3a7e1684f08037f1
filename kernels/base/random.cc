#include <troupe/kernels/base/random.h>

#include <cmath>
#include <numbers>

namespace troupe {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

namespace {

// The finaliser of MurmurHash3: every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDull;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53ull;
  return x ^ (x >> 33);
}

}  // namespace

uint64_t derive_seed(uint64_t seed, const char* what, uint64_t which) {
  uint64_t h = mix(seed + 0x9E3779B97F4A7C15ull);
  for (; *what; ++what) h = mix(h ^ static_cast<unsigned char>(*what)) + 0x9E3779B97F4A7C15ull;
  return mix(h ^ mix(which + 0x2545F4914F6CDD1Dull));
}

uint32_t Random::bits32() {
  if (used_ == 4) {
    block_ = philox4x32({static_cast<uint32_t>(counter_), static_cast<uint32_t>(counter_ >> 32), 0, 0},
                        {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    ++counter_;
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t Random::bits64() {
  const uint64_t high = bits32();
  return high << 32 | bits32();
}

uint64_t Random::below(uint64_t n) {
  // Rejects the part of the range that would make small results more likely.
  const uint64_t limit = n * (~uint64_t{0} / n);
  uint64_t x = bits64();
  while (x >= limit) x = bits64();
  return x % n;
}

double Random::uniform() { return static_cast<double>(bits64() >> 11) * 0x1.0p-53; }

double Random::normal() {
  const double u = 1.0 - uniform();  // (0, 1]: the logarithm is finite
  const double v = uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace troupe
