#include <troupe/kernels/tensor/cuda/devices.h>

#include <troupe/kernels/tensor/cuda/cuda_error.h>

namespace troupe::cuda {
namespace {

// "13.0" of 13000.
std::string version_text(int version) { return cat(version / 1000, '.', version % 1000 / 10); }

std::string versions() {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  return cat(driver ? cat("driver for CUDA ", version_text(driver)) : "no driver", ", runtime ", version_text(runtime));
}

// What to do about it, by what cudaGetDeviceCount answers where nothing can be used.
std::string advice(cudaError_t error) {
  switch (error) {
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
      return "no NVIDIA driver is installed, or one older than the CUDA runtime needs; install a newer driver";
    case cudaErrorNoDevice: return "the driver sees no device; look at nvidia-smi and at CUDA_VISIBLE_DEVICES";
    default: return "the driver is there and does not answer; look at nvidia-smi and at the system's log";
  }
}

Result<DeviceFacts> facts_of(int device) {
  cudaDeviceProp properties{};
  TROUPE_TRY(status_of(cudaGetDeviceProperties(&properties, device), cat("reading what CUDA device ", device, " is")));
  DeviceFacts facts;
  facts.name = properties.name;
  facts.driver = versions();
  facts.memory_bytes = properties.totalGlobalMem;
  facts.processors = properties.multiProcessorCount;
  return facts;
}

}  // namespace

Result<std::vector<DeviceFacts>> find_devices() {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
  if (error != cudaSuccess)
    return fail(ErrorKind::missing, cat(advice(error), " (", describe(error), "; ", versions(), ")"));
  std::vector<DeviceFacts> devices;
  for (int device = 0; device < count; ++device) {
    auto facts = facts_of(device);
    if (!facts) return fail(ErrorKind::missing, facts.error().message);
    devices.push_back(std::move(*facts));
  }
  return devices;
}

void use(int device) { check(cudaSetDevice(device), "choosing a CUDA device"); }

}  // namespace troupe::cuda
