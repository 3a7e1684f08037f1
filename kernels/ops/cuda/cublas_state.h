#pragma once
#include <cublasLt.h>
#include <cublas_v2.h>

#include <compare>
#include <map>

#include <troupe/kernels/ops/write.h>
#include <troupe/kernels/tensor/cuda/cuda_stream.h>

namespace troupe::ops::cuda {

/// A product y[m, n] = epilogue(x[m, k] w[n, k]^T + bias[n]) as cuBLASLt chooses its kernel: by sizes, type and how the
/// operands are aligned (in bytes, at most 256).
struct LinearKey {
  int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::f32;
  Epilogue epilogue = Epilogue::none;
  bool bias = false;
  uint32_t align_x = 0, align_w = 0, align_y = 0;
  auto operator<=>(const LinearKey&) const = default;
};

/// A product that cuBLASLt knows how to do, or not. Owns its descriptors.
struct LinearPlan {
  LinearPlan() = default;
  LinearPlan(const LinearPlan&) = delete;
  LinearPlan& operator=(const LinearPlan&) = delete;
  ~LinearPlan();

  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t x = nullptr, w = nullptr, y = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  bool found = false;
};

/// What cuBLAS keeps for one stream: handles, memory to work in, and the plans of the products seen so far. Dies with
/// the stream.
class CublasState final : public StreamState {
 public:
  /// Of `stream`; made on first use. Throws CudaFailure where cuBLAS does not start.
  static CublasState& of(troupe::cuda::CudaStream& stream);

  explicit CublasState(troupe::cuda::CudaStream& stream);
  ~CublasState() override;

  cublasHandle_t handle() const { return handle_; }
  cublasLtHandle_t lt() const { return lt_; }
  std::byte* workspace() const { return workspace_->data(); }
  size_t workspace_bytes() const { return workspace_->bytes(); }
  const LinearPlan& plan(const LinearKey& key);
  /// What convolutions keep, made by them on first use.
  std::unique_ptr<StreamState>& convolutions() { return convolutions_; }

 private:
  void choose(const LinearKey& key, LinearPlan& plan) const;

  MatmulPrecision precision_;
  cublasHandle_t handle_ = nullptr;
  cublasLtHandle_t lt_ = nullptr;
  BufferPtr workspace_;
  std::map<LinearKey, LinearPlan> plans_;
  std::unique_ptr<StreamState> convolutions_;
};

/// CUDA's names for our types, and in what a product of them is summed.
cudaDataType_t cuda_type(DType dtype);
cublasComputeType_t compute_type(DType dtype, MatmulPrecision precision);
/// The type of alpha and beta.
cudaDataType_t scale_type(DType dtype);

void check(cublasStatus_t status, const char* what);

}  // namespace troupe::ops::cuda
