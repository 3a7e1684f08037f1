#pragma once
#include <cuda_runtime_api.h>

#include <new>
#include <stdexcept>
#include <string>

#include <troupe/kernels/base/result.h>

namespace troupe::cuda {

/// What a stream or an op throws when CUDA refused or broke something: an event, not a bug, since memory runs out and
/// devices fail. The worker that hears it ends with its text.
class CudaFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The device has no room: how much was asked for, how much it has.
class OutOfDeviceMemory : public std::bad_alloc {
 public:
  explicit OutOfDeviceMemory(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

/// "cudaErrorIllegalAddress (700): an illegal memory access was encountered".
std::string describe(cudaError_t error);

/// `what` was tried: "reading the properties of device 0".
Status status_of(cudaError_t error, const std::string& what);
/// Whether the event has passed: cudaSuccess, cudaErrorNotReady, or what failed. CUDA keeps "not ready" as the thread's
/// last error, where a launch that asks how it went would find it: it is forgotten here.
cudaError_t query(cudaEvent_t event);
/// Throws CudaFailure unless it succeeded.
void check(cudaError_t error, const char* what);

}  // namespace troupe::cuda
