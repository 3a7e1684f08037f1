#include <algorithm>
#include <cmath>

#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>

namespace troupe::ops::cpu {
namespace {

constexpr int kBlocks = 32;  // Philox blocks of four numbers that are computed side by side

// words[4 l + w] = word w of philox4x32({block + l, 0, 0}, seed): kernels/base/random.cc over many counters
// at once.
void philox_blocks(uint64_t block, uint64_t seed, uint32_t* words) {
  uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks] = {}, c3[kBlocks] = {};
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int l = 0; l < kBlocks; ++l) {
    c0[l] = static_cast<uint32_t>(block + l);
    c1[l] = static_cast<uint32_t>((block + l) >> 32);
  }
  uint64_t p0[kBlocks], p1[kBlocks];
  for (int round = 0; round < 10; ++round) {
    for (int l = 0; l < kBlocks; ++l) p0[l] = uint64_t{0xD2511F53} * c0[l];
    for (int l = 0; l < kBlocks; ++l) p1[l] = uint64_t{0xCD9E8D57} * c2[l];
    for (int l = 0; l < kBlocks; ++l) c0[l] = static_cast<uint32_t>(p1[l] >> 32) ^ c1[l] ^ k0;
    for (int l = 0; l < kBlocks; ++l) c1[l] = static_cast<uint32_t>(p1[l]);
    for (int l = 0; l < kBlocks; ++l) c2[l] = static_cast<uint32_t>(p0[l] >> 32) ^ c3[l] ^ k1;
    for (int l = 0; l < kBlocks; ++l) c3[l] = static_cast<uint32_t>(p0[l]);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  for (int l = 0; l < kBlocks; ++l) {
    words[4 * l] = c0[l];
    words[4 * l + 1] = c1[l];
    words[4 * l + 2] = c2[l];
    words[4 * l + 3] = c3[l];
  }
}

template <class T>
void drop(const T* x, int64_t begin, int64_t end, uint32_t threshold, T scale, uint64_t seed, int64_t first,
          T* y) {
  uint32_t words[4 * kBlocks];
  for (int64_t i = begin; i < end;) {
    const int64_t number = first + i, block = number / 4;
    philox_blocks(static_cast<uint64_t>(block), seed, words);
    const uint32_t* word = words + (number - 4 * block);
    const int64_t n = std::min(end - i, 4 * (block + kBlocks) - number);
#pragma GCC ivdep
    for (int64_t k = 0; k < n; ++k) {
      const T kept = x[i + k] * scale;
      y[i + k] = word[k] >= threshold ? kept : T{0};
    }
    i += n;
  }
}

void dropout(Stream& stream, const Tensor& x, double p, uint64_t seed, int64_t first, Tensor& y) {
  TROUPE_CHECK(p >= 0 && p < 1, "p is ", p);
  TROUPE_CHECK(first >= 0, "first is ", first);
  expect_dims(x, 0, Shape::kMaxDims, "x");
  expect(y, x.dtype(), x.shape(), "y");
  const auto threshold = static_cast<uint32_t>(std::floor(p * 0x1p32));
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.data<T>();
    T* to = y.data<T>();
    split(stream, x.count(), 4, [&](int64_t begin, int64_t end) {
      drop(from, begin, end, threshold, static_cast<T>(1 / (1 - p)), seed, first, to);
    });
  });
}

}  // namespace

DropoutOps dropout_ops() {
  return {dropout};
}

}  // namespace troupe::ops::cpu
