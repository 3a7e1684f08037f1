#include <set>

#include <troupe/kernels/backend/internal/module.h>
#include <troupe/kernels/collective/nccl/nccl_group.h>
#include <troupe/kernels/ops/cuda/conv_choice.h>
#include <troupe/kernels/ops/cuda/named_ops.h>
#include <troupe/kernels/tensor/cuda/cuda_stream.h>
#include <troupe/kernels/tensor/cuda/devices.h>
#include <troupe/kernels/tensor/cuda/memory.h>

namespace troupe::cuda {
namespace {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(std::vector<DeviceFacts> devices)
      : devices_(std::move(devices)), pinned_(std::make_shared<BlockCache>(make_pinned_memory())) {}

  DeviceKind kind() const override { return DeviceKind::cuda; }
  const std::vector<DeviceFacts>& devices() const override { return devices_; }
  const ops::Ops& ops() const override { return ops::cuda::named_cuda_ops(); }
  const ops::UpdateOps* update_ops() const override { return &ops::cuda::named_cuda_update_ops(); }

  Result<std::unique_ptr<Stream>> make_stream(const StreamOptions& options) override {
    TROUPE_TRY(check_device(options.device));
    try {
      auto memory = std::make_shared<BlockCache>(make_device_memory(options.device));
      return std::make_unique<CudaStream>(options, std::move(memory), pinned_);
    } catch (const std::exception& e) {
      return fail(ErrorKind::exhausted, cat("no stream on CUDA device ", options.device, ": ", e.what()));
    }
  }

  void order(Stream& before, Stream& after) override { cuda_stream(after).wait_for(cuda_stream(before)); }

  LaunchCounts launches(const Stream& stream) const override {
    return static_cast<const CudaStream&>(stream).launches();
  }
  Status begin_capture(Stream& stream, std::shared_ptr<BlockCache>& memory) override {
    return cuda_stream(stream).begin_capture(memory);
  }
  Result<std::unique_ptr<LaunchGraph>> end_capture(Stream& stream) override {
    return cuda_stream(stream).end_capture();
  }
  Status replay(LaunchGraph& graph, Stream& stream) override { return cuda_stream(stream).replay(graph); }

  BufferPtr allocate_host(size_t bytes) override {
    if (BufferPtr buffer = pinned_->allocate(bytes)) return buffer;
    return allocate(bytes);  // what cannot be pinned is copied in two steps
  }

  Result<std::vector<std::unique_ptr<Communicator>>> make_group(std::span<const int> devices) override {
    if (devices.empty()) return fail(ErrorKind::invalid, "a group of no ranks is asked for");
    std::set<int> seen;
    for (int device : devices) {
      TROUPE_TRY(check_device(device));
      if (!seen.insert(device).second)
        return fail(ErrorKind::invalid, cat("CUDA device ", device, " is named twice in a group of ", devices.size(),
                                            "; each rank needs a device of its own"));
    }
    return make_nccl_group(devices);
  }

  Result<GroupKey> make_group_key() override { return make_nccl_key(); }
  Result<std::unique_ptr<Communicator>> join_group(const GroupKey& key, const GroupSeat& seat) override {
    TROUPE_TRY(check_device(seat.device));
    return join_nccl_group(key, seat);
  }

 private:
  Status check_device(int device) const {
    if (device >= 0 && static_cast<size_t>(device) < devices_.size()) return {};
    return fail(ErrorKind::invalid, cat("CUDA device ", device, " is asked for; there are ", devices_.size(), " (0 to ",
                                        devices_.size() - 1, ")"));
  }

  std::vector<DeviceFacts> devices_;
  std::shared_ptr<BlockCache> pinned_;
};

Error make(const ModuleAbi& program, std::shared_ptr<Backend>& made) {
  if (program != ModuleAbi{})
    return {ErrorKind::missing,
            "libtroupe_cuda.so was built for another version of Troupe than this program; build "
            "both from the same sources"};
  auto devices = find_devices();
  const std::string convolutions = cat(", convolutions by ", ops::cuda::conv_library());
  if (!devices) return {devices.error().kind, devices.error().message + convolutions};
  for (DeviceFacts& facts : *devices) facts.driver += convolutions;
  made = std::make_shared<CudaBackend>(std::move(*devices));
  return {};
}

}  // namespace
}  // namespace troupe::cuda

extern "C" __attribute__((visibility("default"))) troupe::Error troupe_make_backend(
    const troupe::ModuleAbi& program, std::shared_ptr<troupe::Backend>& made) {
  try {
    return troupe::cuda::make(program, made);
  } catch (const std::exception& e) {
    return {troupe::ErrorKind::failed, std::string("the CUDA backend could not start: ") + e.what()};
  }
}
