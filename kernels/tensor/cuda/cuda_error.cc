#include <troupe/kernels/tensor/cuda/cuda_error.h>

#include <troupe/kernels/base/text.h>

namespace troupe::cuda {

std::string describe(cudaError_t error) {
  return cat(cudaGetErrorName(error), " (", static_cast<int>(error), "): ", cudaGetErrorString(error));
}

Status status_of(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return {};
  const auto kind = error == cudaErrorMemoryAllocation ? ErrorKind::exhausted : ErrorKind::failed;
  return fail(kind, cat(what, ": ", describe(error)));
}

cudaError_t query(cudaEvent_t event) {
  const cudaError_t state = cudaEventQuery(event);
  if (state == cudaErrorNotReady) cudaGetLastError();
  return state;
}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw CudaFailure(cat(what, ": ", describe(error)));
}

}  // namespace troupe::cuda
