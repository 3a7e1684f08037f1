#include <tests/support/cuda/emulated_stream.h>
#include <troupe/kernels/ops/cuda/families.h>

/// Products are NVIDIA's library's business on a device; here the CPU's, on the memory that stands for the device's.
namespace troupe::ops::cuda {
namespace {

using test::cuda::as_host;

void gemm(Stream&, Trans trans_a, Trans trans_b, const Tensor& a, const Tensor& b, double beta, Tensor& c) {
  Stream cpu;
  Tensor result = as_host(c);
  cpu_ops().gemm(cpu, trans_a, trans_b, as_host(a), as_host(b), beta, result);
}

void linear(Stream&, const Tensor& x, const Tensor& w, const Tensor& bias, Epilogue epilogue, Tensor& y) {
  Stream cpu;
  Tensor result = as_host(y);
  cpu_ops().linear(cpu, as_host(x), as_host(w), bias ? as_host(bias) : Tensor{}, epilogue, result);
}

}  // namespace

GemmOps gemm_ops() { return {gemm, linear}; }

}  // namespace troupe::ops::cuda
