#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// What cuBLAS reaches by itself, for `troupe bench gemm --alone` to be compared with: bf16 products of three matrices
// of side N (4096), the best of two layouts and of ten rounds. Prints operations a second.
//
//   cublas_alone [N]

namespace {

void require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "error: %s\n", what);
  std::exit(1);
}

float seconds_of(cublasHandle_t cublas, cudaStream_t stream, cublasOperation_t trans, int n, const void* a,
                 const void* b, void* c) {
  const float one = 1, zero = 0;
  constexpr int kProducts = 20;
  cudaEvent_t begin, end;
  require(cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess, "no events");
  float best = 0;
  for (int round = 0; round < 11; ++round) {  // the first one warms up
    cudaEventRecord(begin, stream);
    for (int i = 0; i < kProducts; ++i)
      require(cublasGemmEx(cublas, trans, CUBLAS_OP_N, n, n, n, &one, a, CUDA_R_16BF, n, b, CUDA_R_16BF, n, &zero, c,
                           CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS,
              "cuBLAS refused a product");
    cudaEventRecord(end, stream);
    require(cudaEventSynchronize(end) == cudaSuccess, "a product failed");
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    if (round == 1 || (round > 1 && milliseconds < best)) best = milliseconds;
  }
  return best / 1e3f / kProducts;
}

}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096;
  require(n > 0 && n <= 32768, "cublas_alone [N]: N is from 1 to 32768");
  const size_t elements = static_cast<size_t>(n) * static_cast<size_t>(n);
  // As the bench has them: of both signs, since zeros take less power and so less time.
  auto* host = static_cast<unsigned short*>(std::malloc(2 * elements));
  require(host != nullptr, "no memory");
  std::srand(1);
  for (size_t i = 0; i < elements; ++i) host[i] = static_cast<unsigned short>(std::rand() % 2 ? 0x3f80 : 0xbf80);
  void* matrices[3];
  for (void*& matrix : matrices) {
    require(cudaMalloc(&matrix, 2 * elements) == cudaSuccess, "no CUDA device, or no memory on it");
    require(cudaMemcpy(matrix, host, 2 * elements, cudaMemcpyHostToDevice) == cudaSuccess, "a copy failed");
  }
  cudaStream_t stream;
  cublasHandle_t cublas;
  require(cudaStreamCreate(&stream) == cudaSuccess, "no stream");
  require(cublasCreate(&cublas) == CUBLAS_STATUS_SUCCESS, "cuBLAS does not start");
  require(cublasSetStream(cublas, stream) == CUBLAS_STATUS_SUCCESS, "cuBLAS takes no stream");
  const float seconds = std::min(seconds_of(cublas, stream, CUBLAS_OP_N, n, matrices[0], matrices[1], matrices[2]),
                                 seconds_of(cublas, stream, CUBLAS_OP_T, n, matrices[0], matrices[1], matrices[2]));
  std::printf("%.4g\n", 2.0 * n * n * n / static_cast<double>(seconds));
}
