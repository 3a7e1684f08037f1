#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/attention.cuh>
#include <troupe/kernels/ops/cuda/row.cuh>

namespace troupe::ops::cuda {
namespace {

constexpr int64_t kWidestHead = 8 * kDepth;  // what registers hold

AttentionSizes expect_packed(const Tensor& qkv) {
  expect_dims(qkv, 5, 5, "qkv");
  expect(qkv, qkv.dtype(), qkv.shape(), "qkv");
  const Shape& s = qkv.shape();
  TROUPE_CHECK(s[2] == 3 && s[4] > 0 && s[4] <= kWidestHead, "qkv is ", s, ", expected [n, t, 3, heads, 1 to ",
               kWidestHead, "]");
  TROUPE_CHECK(s[0] <= 65535 && s[3] <= 65535, "qkv is ", s, ": more than 65535 sequences or heads");
  return {s[0], s[1], s[3], s[4]};
}

// Calls launch(Constant<kChunks>, blocks) with as many columns in registers as cover a head. Double is there to check
// gradients, not to be fast: one size serves all.
template <class T, class Launch>
void over_tiles(const AttentionSizes& s, Launch launch) {
  const dim3 blocks(blocks_for(s.t, kAttentionTile<T>), static_cast<unsigned>(s.heads), static_cast<unsigned>(s.n));
  if constexpr (sizeof(T) == sizeof(float)) {
    if (s.d <= 2 * kDepth) return launch(Constant<2>{}, blocks);
    if (s.d <= 4 * kDepth) return launch(Constant<4>{}, blocks);
  }
  launch(Constant<8>{}, blocks);
}

void attention(Stream& stream, const Tensor& qkv, double scale, Tensor& y, Tensor& log_sums) {
  const AttentionSizes s = expect_packed(qkv);
  expect(y, qkv.dtype(), {s.n, s.t, s.heads, s.d}, "y");
  expect(log_sums, qkv.dtype(), {s.n, s.heads, s.t}, "log_sums");
  if (y.count() == 0) return;
  dispatch(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    over_tiles<T>(s, [&](auto chunks, dim3 blocks) {
      TROUPE_LAUNCH((attend<T, decltype(chunks)::value>), blocks, kSide * kSide, 0, stream, s, static_cast<T>(scale),
                    qkv.data<T>(), y.data<T>(), log_sums.data<T>());
    });
  });
}

void attention_gradient(Stream& stream, const Tensor& qkv, double scale, const Tensor& y, const Tensor& log_sums,
                        const Tensor& dy, Tensor& dqkv) {
  const AttentionSizes s = expect_packed(qkv);
  expect(y, qkv.dtype(), {s.n, s.t, s.heads, s.d}, "y");
  expect(log_sums, qkv.dtype(), {s.n, s.heads, s.t}, "log_sums");
  expect(dy, qkv.dtype(), y.shape(), "dy");
  expect(dqkv, qkv.dtype(), qkv.shape(), "dqkv");
  if (y.count() == 0) return;
  dispatch(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const int64_t rows = s.n * s.t * s.heads;
    T* const dots = reinterpret_cast<T*>(stream.scratch(static_cast<size_t>(rows) * sizeof(T)));
    TROUPE_LAUNCH(attention_dots<T>, blocks_for(rows, kBlockThreads / kWarp), kBlockThreads, 0, stream, s, y.data<T>(),
                  dy.data<T>(), dots);
    over_tiles<T>(s, [&](auto chunks, dim3 blocks) {
      constexpr int kChunks = decltype(chunks)::value;
      TROUPE_LAUNCH((query_gradient<T, kChunks>), blocks, kSide * kSide, 0, stream, s, static_cast<T>(scale),
                    qkv.data<T>(), dy.data<T>(), log_sums.data<T>(), dots, dqkv.data<T>());
      TROUPE_LAUNCH((key_gradient<T, kChunks>), blocks, kSide * kSide, 0, stream, s, static_cast<T>(scale),
                    qkv.data<T>(), dy.data<T>(), log_sums.data<T>(), dots, dqkv.data<T>());
    });
  });
}

}  // namespace

AttentionOps attention_ops() { return {attention, attention_gradient}; }

}  // namespace troupe::ops::cuda
