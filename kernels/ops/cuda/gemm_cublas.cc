#include <algorithm>
#include <bit>

#include <troupe/kernels/ops/cuda/cublas_state.h>
#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/internal/epilogue.h>
#include <troupe/kernels/ops/internal/tensors.h>
#include <troupe/kernels/tensor/cuda/cuda_error.h>

namespace troupe::ops::cuda {
namespace {

using troupe::cuda::cuda_stream;
using troupe::cuda::CudaStream;

/// alpha or beta in the type that cuBLAS reads it in.
struct Scalar {
  Scalar(DType dtype, double value) : f64(value), f32(static_cast<float>(value)), is_f64(dtype == DType::f64) {}
  const void* get() const { return is_f64 ? static_cast<const void*>(&f64) : &f32; }
  double f64;
  float f32;
  bool is_f64;
};

void expect(const Tensor& t, DType dtype, const Shape& shape, const char* name) {
  TROUPE_CHECK(t && t.device().kind == DeviceKind::cuda, name, " is not on a CUDA device");
  TROUPE_CHECK(t.dtype() == dtype && t.shape() == shape, name, " is ", name_of(t.dtype()), t.shape(), ", expected ",
               name_of(dtype), shape);
}

// c = beta c, where there is nothing to multiply.
void scale_only(Stream& stream, double beta, Tensor& c) {
  if (beta == 0)
    elementwise_ops().fill(stream, 0, c);
  else if (beta != 1)
    elementwise_ops().scale(stream, beta, c);
}

// cuBLAS counts columns first: it works out c^T = op(b)^T op(a)^T, and finds the transposed matrices in the row-major
// ones by taking the operands in the other order.
void gemm(Stream& stream, Trans trans_a, Trans trans_b, const Tensor& a, const Tensor& b, double beta, Tensor& c) {
  expect_dims(a, 2, 2, "a");
  expect_dims(b, 2, 2, "b");
  const int64_t m = a.shape()[trans_a == Trans::yes ? 1 : 0], k = a.shape()[trans_a == Trans::yes ? 0 : 1];
  const int64_t n = b.shape()[trans_b == Trans::yes ? 0 : 1];
  expect(b, a.dtype(), trans_b == Trans::yes ? Shape{n, k} : Shape{k, n}, "b");
  expect(c, a.dtype(), {m, n}, "c");
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_only(stream, beta, c);

  CudaStream& cuda = cuda_stream(stream);
  CublasState& cublas = CublasState::of(cuda);
  const DType dtype = a.dtype();
  const Scalar one(dtype, 1), scale(dtype, beta);
  const cudaDataType_t type = cuda_type(dtype);
  check(cublasGemmEx_64(cublas.handle(), trans_b == Trans::yes ? CUBLAS_OP_T : CUBLAS_OP_N,
                        trans_a == Trans::yes ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, one.get(), b.raw(), type,
                        b.shape()[1], a.raw(), type, a.shape()[1], scale.get(), c.raw(), type, n,
                        compute_type(dtype, cuda.matmul()), CUBLAS_GEMM_DEFAULT),
        "a matrix product");
  cuda.launched("cublasGemmEx");
}

// The largest power of two, up to 256, that the address is a multiple of.
uint32_t alignment(const Tensor& t) {
  const auto address = reinterpret_cast<uintptr_t>(t.raw());
  return address == 0 ? 256u : static_cast<uint32_t>(std::min<uintptr_t>(256, address & (~address + 1)));
}

// False where cuBLASLt has no kernel for it.
bool fused_linear(CudaStream& stream, const LinearKey& key, const Tensor& x, const Tensor& w, const Tensor& bias,
                  Tensor& y) {
  CublasState& cublas = CublasState::of(stream);
  const LinearPlan& plan = cublas.plan(key);
  if (!plan.found) return false;
  if (bias) {
    const void* address = bias.raw();
    check(cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address, sizeof address),
          "giving cuBLASLt a bias");
  }
  const Scalar one(key.dtype, 1), zero(key.dtype, 0);
  check(cublasLtMatmul(cublas.lt(), plan.product, one.get(), w.raw(), plan.w, x.raw(), plan.x, zero.get(), y.raw(),
                       plan.y, y.raw(), plan.y, &plan.algorithm, cublas.workspace(), cublas.workspace_bytes(),
                       stream.handle()),
        "a matrix product with bias");
  stream.launched("cublasLtMatmul");
  return true;
}

void linear(Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias, Epilogue epilogue, Tensor& y) {
  expect_dims(x, 2, 2, "x");
  expect_dims(w, 2, 2, "w");
  const int64_t m = x.shape()[0], k = x.shape()[1], n = w.shape()[0];
  expect(w, x.dtype(), {n, k}, "w");
  expect(y, x.dtype(), {m, n}, "y");
  if (bias) expect(bias, x.dtype(), {n}, "bias");
  if (m == 0 || n == 0) return;
  // The epilogue's loads of the bias are as wide as its stores of y.
  const uint32_t align_y = bias ? std::min(alignment(y), alignment(bias)) : alignment(y);
  const LinearKey key{m, n, k, x.dtype(), epilogue, static_cast<bool>(bias), alignment(x), alignment(w), align_y};
  // cuBLASLt's gelu is the approximation by tanh; the exact one moves as many bytes in a pass of its own as behind a
  // product that adds the bias.
  const bool fits = k > 0 && x.dtype() != DType::f64 && epilogue != Epilogue::gelu;
  if (fits && fused_linear(cuda_stream(stream), key, x, w, bias, y)) return;
  gemm(stream, Trans::no, Trans::yes, x, w, 0, y);
  if (bias)
    bias_ops().bias_add(stream, y, bias, epilogue, y);
  else
    apply(stream, activation_ops(), epilogue, y);
}

}  // namespace

GemmOps gemm_ops() { return {gemm, linear}; }

}  // namespace troupe::ops::cuda
