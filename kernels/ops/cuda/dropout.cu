#include <cmath>

#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/dropout.cuh>

namespace troupe::ops::cuda {
namespace {

void dropout(Stream& stream, const Tensor& x, double p, uint64_t seed, int64_t first, Tensor& y) {
  TROUPE_CHECK(p >= 0 && p < 1, "p is ", p);
  TROUPE_CHECK(first >= 0, "first is ", first);
  expect(x, x.dtype(), x.shape(), "x");
  expect(y, x.dtype(), x.shape(), "y");
  const int64_t n = x.count();
  if (n == 0) return;
  const auto threshold = static_cast<uint32_t>(std::floor(p * 0x1p32));
  const unsigned blocks = blocks_for((first + n - 1) / 4 - first / 4 + 1);
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.data<T>();
    T* to = y.data<T>();
    const T scale = static_cast<T>(1 / (1 - p));
    if (first % 4 == 0 && aligned(4, from, to))
      TROUPE_LAUNCH((drop<true, T>), blocks, kBlockThreads, 0, stream, n, threshold, scale, seed, first, from, to);
    else
      TROUPE_LAUNCH((drop<false, T>), blocks, kBlockThreads, 0, stream, n, threshold, scale, seed, first, from, to);
  });
}

}  // namespace

DropoutOps dropout_ops() { return {dropout}; }

}  // namespace troupe::ops::cuda
