#include <troupe/kernels/backend/internal/cpu_backend.h>

#include <unistd.h>

#include <thread>

#include <troupe/kernels/collective/thread_group.h>

namespace troupe {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend() {
    DeviceFacts facts;
    facts.name = "CPU";
    facts.processors = static_cast<int>(std::thread::hardware_concurrency());
    facts.memory_bytes = static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    devices_.push_back(facts);
  }

  DeviceKind kind() const override { return DeviceKind::cpu; }
  const std::vector<DeviceFacts>& devices() const override { return devices_; }
  const ops::Ops& ops() const override { return ops::cpu_ops(); }
  const ops::UpdateOps* update_ops() const override { return nullptr; }

  Result<std::unique_ptr<Stream>> make_stream(const StreamOptions& options) override {
    if (options.device != 0)
      return fail(ErrorKind::invalid, cat("CPU device ", options.device, " is asked for; there is only 0"));
    return std::make_unique<Stream>(Device{}, options.threads);
  }
  void order(Stream&, Stream&) override {}
  BufferPtr allocate_host(size_t bytes) override { return allocate(bytes); }

  // Ranks share the CPU: any number may be on it.
  Result<std::vector<std::unique_ptr<Communicator>>> make_group(std::span<const int> devices) override {
    if (devices.empty()) return fail(ErrorKind::invalid, "a group of no ranks is asked for");
    for (int device : devices)
      if (device != 0) return fail(ErrorKind::invalid, cat("CPU device ", device, " is asked for; there is only 0"));
    return make_thread_group(static_cast<int>(devices.size()));
  }

  Result<GroupKey> make_group_key() override { return no_such_groups(); }
  Result<std::unique_ptr<Communicator>> join_group(const GroupKey&, const GroupSeat&) override {
    return no_such_groups();
  }

 private:
  static tl::unexpected<Error> no_such_groups() {
    return fail(ErrorKind::missing,
                "CPU ranks of several processes have no collectives; let servers add their gradients");
  }

  std::vector<DeviceFacts> devices_;
};

}  // namespace

std::shared_ptr<Backend> make_cpu_backend() { return std::make_shared<CpuBackend>(); }

}  // namespace troupe
