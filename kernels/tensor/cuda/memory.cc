#include <troupe/kernels/tensor/cuda/memory.h>

#include <cuda_runtime_api.h>

#include <troupe/kernels/base/text.h>
#include <troupe/kernels/tensor/cuda/devices.h>

namespace troupe::cuda {
namespace {

class DeviceMemory final : public BlockSource {
 public:
  explicit DeviceMemory(int device) : device_(device) {}

  std::byte* take(size_t bytes) override {
    void* block = nullptr;
    if (cudaSetDevice(device_) == cudaSuccess && cudaMalloc(&block, bytes) == cudaSuccess)
      return static_cast<std::byte*>(block);
    cudaGetLastError();  // no room is no lasting error: forget it
    return nullptr;
  }
  // cudaFree waits for the device. What it says at the end of a program, when the runtime has gone, is no matter.
  void give(std::byte* block) override { cudaFree(block); }
  Device device() const override { return {DeviceKind::cuda, device_}; }
  std::string state() const override {
    size_t free = 0, total = 0;
    if (cudaSetDevice(device_) != cudaSuccess || cudaMemGetInfo(&free, &total) != cudaSuccess)
      return cat("CUDA device ", device_, " does not say how much is free");
    return cat(free >> 20, " MiB of ", total >> 20, " MiB are free on CUDA device ", device_);
  }

 private:
  int device_;
};

class PinnedMemory final : public BlockSource {
 public:
  std::byte* take(size_t bytes) override {
    void* block = nullptr;
    // Portable: pinned for all devices, not for the current one alone.
    if (cudaHostAlloc(&block, bytes, cudaHostAllocPortable) == cudaSuccess) return static_cast<std::byte*>(block);
    cudaGetLastError();
    return nullptr;
  }
  void give(std::byte* block) override { cudaFreeHost(block); }
  Device device() const override { return {}; }
  std::string state() const override { return "the host has no more memory that can be pinned (see ulimit -l)"; }
};

}  // namespace

std::shared_ptr<BlockSource> make_device_memory(int device) { return std::make_shared<DeviceMemory>(device); }
std::shared_ptr<BlockSource> make_pinned_memory() { return std::make_shared<PinnedMemory>(); }

bool is_pinned(const void* data) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeHost;
}

}  // namespace troupe::cuda
