#include <troupe/kernels/ops/cpu/image_blocks.h>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/ops/cpu/threads.h>

namespace troupe::ops::cpu {
namespace {

// The block's size is known to the compiler, which unrolls the inner loop.
template <int64_t kBlock, class Move>
void move_each(const Stream& stream, const ImageBlocks& b, const Move& move) {
  split(stream, b.outer, b.pixels * kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin * b.pixels * kBlock; o < end * b.pixels * kBlock; o += b.pixels * kBlock)
      for (int64_t p = 0; p < b.pixels; ++p)
        for (int64_t c = 0; c < kBlock; ++c) move(o + c * b.pixels + p, o + p * kBlock + c);
  });
}

template <class Move>
void move_all(const Stream& stream, const ImageBlocks& b, const Move& move) {
  TROUPE_CHECK(b.block == 8 || b.block == 16, "blocks of ", b.block, " channels");
  b.block == 8 ? move_each<8>(stream, b, move) : move_each<16>(stream, b, move);
}

}  // namespace

void to_blocks(const Stream& stream, const ImageBlocks& b, const float* plain, float* blocked) {
  move_all(stream, b, [=](int64_t at, int64_t in_block) { blocked[in_block] = plain[at]; });
}

void from_blocks(const Stream& stream, const ImageBlocks& b, const float* blocked, float* plain) {
  move_all(stream, b, [=](int64_t at, int64_t in_block) { plain[at] = blocked[in_block]; });
}

}  // namespace troupe::ops::cpu
