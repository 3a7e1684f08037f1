#include <troupe/kernels/ops/cuda/cublas_state.h>

#include <troupe/kernels/tensor/cuda/cuda_error.h>

namespace troupe::ops::cuda {
namespace {

// What NVIDIA advises for Hopper; older devices ask for less and leave the rest unused.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value), "describing a product to cuBLASLt");
}

// Owns the wishes of one search.
struct Preference {
  Preference() { check(cublasLtMatmulPreferenceCreate(&wish), "describing a product to cuBLASLt"); }
  ~Preference() { cublasLtMatmulPreferenceDestroy(wish); }
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    check(cublasLtMatmulPreferenceSetAttribute(wish, attribute, &value, sizeof value),
          "describing a product to cuBLASLt");
  }
  cublasLtMatmulPreference_t wish = nullptr;
};

cublasLtEpilogue_t epilogue_of(const LinearKey& key) {
  if (key.epilogue == Epilogue::relu) return key.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  if (key.epilogue == Epilogue::gelu_tanh) return key.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return key.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw troupe::cuda::CudaFailure(
        cat(what, ": ", cublasGetStatusName(status), " (", cublasGetStatusString(status), ")"));
}

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDA_R_32F;
    case DType::f64: return CUDA_R_64F;
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    default: break;
  }
  TROUPE_CHECK(false, "no product of ", name_of(dtype));
  return CUDA_R_32F;
}

cublasComputeType_t compute_type(DType dtype, MatmulPrecision precision) {
  if (dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  if (dtype != DType::f32) return CUBLAS_COMPUTE_32F;
  switch (precision) {
    case MatmulPrecision::f32: return CUBLAS_COMPUTE_32F;
    case MatmulPrecision::tf32: return CUBLAS_COMPUTE_32F_FAST_TF32;
    case MatmulPrecision::bf16: return CUBLAS_COMPUTE_32F_FAST_16BF;
  }
  return CUBLAS_COMPUTE_32F;
}

cudaDataType_t scale_type(DType dtype) { return dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F; }

LinearPlan::~LinearPlan() {
  if (y) cublasLtMatrixLayoutDestroy(y);
  if (w) cublasLtMatrixLayoutDestroy(w);
  if (x) cublasLtMatrixLayoutDestroy(x);
  if (product) cublasLtMatmulDescDestroy(product);
}

CublasState& CublasState::of(troupe::cuda::CudaStream& stream) {
  if (!stream.state()) stream.state() = std::make_unique<CublasState>(stream);
  return static_cast<CublasState&>(*stream.state());
}

CublasState::CublasState(troupe::cuda::CudaStream& stream)
    : precision_(stream.matmul()), workspace_(stream.allocate(kWorkspaceBytes)) {
  check(cublasCreate(&handle_), "starting cuBLAS");
  check(cublasLtCreate(&lt_), "starting cuBLASLt");
  check(cublasSetStream(handle_, stream.handle()), "giving cuBLAS a stream");
  // After the stream, which would set another. With memory of the stream's own the bits do not depend on other streams.
  check(cublasSetWorkspace(handle_, workspace_->data(), workspace_->bytes()), "giving cuBLAS memory to work in");
}

CublasState::~CublasState() {
  convolutions_.reset();
  plans_.clear();
  if (lt_) cublasLtDestroy(lt_);
  if (handle_) cublasDestroy(handle_);
}

const LinearPlan& CublasState::plan(const LinearKey& key) {
  const auto [found, is_new] = plans_.try_emplace(key);
  if (is_new) choose(key, found->second);
  return found->second;
}

// cuBLAS counts columns first, so a row-major matrix is to it the transposed one: it works out y^T[n, m] = w x^T, from
// w seen as [k, n] and to be transposed, and x seen as [k, m].
void CublasState::choose(const LinearKey& key, LinearPlan& plan) const {
  const cudaDataType_t type = cuda_type(key.dtype);
  const auto k = static_cast<uint64_t>(key.k), m = static_cast<uint64_t>(key.m), n = static_cast<uint64_t>(key.n);
  check(cublasLtMatmulDescCreate(&plan.product, compute_type(key.dtype, precision_), scale_type(key.dtype)),
        "describing a product to cuBLASLt");
  set(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(key));
  check(cublasLtMatrixLayoutCreate(&plan.w, type, k, n, key.k), "describing a matrix to cuBLASLt");
  check(cublasLtMatrixLayoutCreate(&plan.x, type, k, m, key.k), "describing a matrix to cuBLASLt");
  check(cublasLtMatrixLayoutCreate(&plan.y, type, n, m, key.n), "describing a matrix to cuBLASLt");

  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes()));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.align_w);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.align_x);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.align_y);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.align_y);
  cublasLtMatmulHeuristicResult_t best{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(lt_, plan.product, plan.w, plan.x, plan.y, plan.y,
                                                               preference.wish, 1, &best, &count);
  // Some types have no such epilogue: those are for the caller to do in two steps.
  plan.found = status == CUBLAS_STATUS_SUCCESS && count > 0 && best.state == CUBLAS_STATUS_SUCCESS;
  plan.algorithm = best.algo;
}

}  // namespace troupe::ops::cuda
