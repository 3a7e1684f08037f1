#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/matmul.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>
#include <troupe/kernels/ops/internal/epilogue.h>

namespace troupe::ops::cpu {
namespace {

void gemm(Stream& stream, Trans trans_a, Trans trans_b, const Tensor& a, const Tensor& b, double beta,
          Tensor& c) {
  expect_dims(a, 2, 2, "a");
  expect_dims(b, 2, 2, "b");
  const int64_t m = a.shape()[trans_a == Trans::yes ? 1 : 0], k = a.shape()[trans_a == Trans::yes ? 0 : 1];
  const int64_t n = b.shape()[trans_b == Trans::yes ? 0 : 1];
  expect(b, a.dtype(), trans_b == Trans::yes ? Shape{n, k} : Shape{k, n}, "b");
  expect(c, a.dtype(), {m, n}, "c");
  const UseThreads threads(stream);
  dispatch(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    matmul(trans_a, trans_b, m, n, k, a.data<T>(), b.data<T>(), static_cast<T>(beta), c.data<T>());
  });
}

void linear(Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias, Epilogue epilogue,
            Tensor& y) {
  gemm(stream, Trans::no, Trans::yes, x, w, 0, y);
  // A pass of its own costs 1-2 % of the product: y is still in the cache.
  if (bias)
    bias_ops().bias_add(stream, y, bias, epilogue, y);
  else
    apply(stream, activation_ops(), epilogue, y);
}

}  // namespace

GemmOps gemm_ops() {
  return {gemm, linear};
}

}  // namespace troupe::ops::cpu
