#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/rotary.cuh>

namespace troupe::ops::cuda {
namespace {

void turn_all(Stream& stream, double base, double sign, Tensor& qkv) {
  expect_dims(qkv, 5, 5, "qkv");
  expect(qkv, qkv.dtype(), qkv.shape(), "qkv");
  const int64_t n = qkv.shape()[0], t = qkv.shape()[1], heads = qkv.shape()[3], half = qkv.shape()[4] / 2;
  TROUPE_CHECK(qkv.shape()[2] == 3 && qkv.shape()[4] % 2 == 0, "qkv is ", qkv.shape(),
               ", expected [n, t, 3, heads, an even width]");
  TROUPE_CHECK(base > 0, "base is ", base);
  const int64_t pairs = n * t * 2 * heads * half;
  if (pairs == 0) return;
  dispatch(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    auto* turns = reinterpret_cast<Turn<T>*>(stream.scratch(static_cast<size_t>(t * half) * sizeof(Turn<T>)));
    TROUPE_LAUNCH(make_turns<T>, blocks_for(t * half), kBlockThreads, 0, stream, t, half, base, sign, turns);
    TROUPE_LAUNCH(turn_pairs<T>, blocks_for(pairs), kBlockThreads, 0, stream, pairs, t, heads, half, turns,
                  qkv.data<T>());
  });
}

void rotary(Stream& stream, double base, Tensor& qkv) { turn_all(stream, base, 1, qkv); }
void rotary_gradient(Stream& stream, double base, Tensor& dqkv) { turn_all(stream, base, -1, dqkv); }

}  // namespace

RotaryOps rotary_ops() { return {rotary, rotary_gradient}; }

}  // namespace troupe::ops::cuda
