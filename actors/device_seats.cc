#include <troupe/actors/device_seats.h>

#include <algorithm>

namespace troupe {
namespace {

std::string device_term(const ps::Sources& sources, const char* value) {
  return cat("parallel.device = \"", value, "\" (", sources.of("parallel.device"), ")");
}

// Why the devices are not enough for the workers of a process that has all of them; empty where they are.
std::string too_few(const ps::RunConfig& config, const ps::Sources& sources, size_t devices) {
  if (static_cast<size_t>(config.parallel.workers) <= devices) return {};
  return cat("parallel.workers = ", config.parallel.workers, " (", sources.of("parallel.workers"),
             ") is more than there are CUDA devices, ", devices);
}

std::string listed(const std::vector<DeviceFacts>& devices) {
  std::string names;
  for (const DeviceFacts& device : devices) names += (names.empty() ? "" : ", ") + device.name;
  return names;
}

}  // namespace

Result<std::shared_ptr<DeviceSeats>> DeviceSeats::choose(const ps::RunConfig& config, const ps::Sources& sources,
                                                         bool spread) {
  const auto on_cpu = [](std::string note) {
    auto seats = std::make_shared<DeviceSeats>(load_backend(DeviceKind::cpu).value());
    seats->note_ = std::move(note);
    return seats;
  };
  const ps::DeviceChoice choice = config.parallel.device;
  if (choice == ps::DeviceChoice::cpu) return on_cpu({});
  const bool automatic = choice == ps::DeviceChoice::automatic;
  const std::string term = device_term(sources, automatic ? "auto" : "cuda");
  if (automatic && config.parallel.stages > 1)
    return on_cpu(cat(term, ": workers compute on the CPU, since the stages of a pipeline do"));
  auto cuda = load_backend(DeviceKind::cuda);
  if (!cuda) {
    if (automatic) return on_cpu(cat(term, ": workers compute on the CPU, since ", cuda.error().message));
    return fail(term, cuda.error());
  }
  const auto& devices = (*cuda)->devices();
  if (const std::string why = too_few(config, sources, devices.size()); !spread && !why.empty()) {
    if (automatic) return on_cpu(cat(term, ": workers compute on the CPU, since ", why));
    return fail(ErrorKind::invalid, cat(term, " gives each worker a device of its own, but ", why, " (",
                                        listed(devices), "); use fewer workers"));
  }
  auto seats = std::make_shared<DeviceSeats>(*cuda);
  seats->note_ = cat("workers compute on ", devices.size(), devices.size() == 1 ? " GPU" : " GPUs", " (",
                     listed(devices), "; ", devices.front().driver, ")");
  return seats;
}

Result<int> DeviceSeats::seat(ps::WorkerId worker) {
  if (backend_->kind() == DeviceKind::cpu) return 0;
  std::lock_guard lock(mutex_);
  if (const auto found = seats_.find(worker); found != seats_.end()) return found->second;
  const int count = static_cast<int>(backend_->devices().size());
  for (int i = 0; i < count; ++i) {
    const int device = static_cast<int>((worker + static_cast<ps::WorkerId>(i)) % static_cast<ps::WorkerId>(count));
    const bool taken = std::ranges::any_of(seats_, [&](const auto& seat) { return seat.second == device; });
    if (taken) continue;
    seats_[worker] = device;
    return device;
  }
  return fail(ErrorKind::invalid, cat("worker ", worker, " finds no CUDA device: this process has ", count,
                                      ", and each "
                                      "has a worker; use fewer workers, or more processes on hosts with devices"));
}

Result<std::shared_ptr<Backend>> server_backend(const ps::RunConfig& config, const ps::Sources& sources) {
  if (config.parallel.server_device == ps::DeviceChoice::cpu) return std::shared_ptr<Backend>();
  auto cuda = load_backend(DeviceKind::cuda);
  if (!cuda)
    return fail(cat("parallel.server_device = \"cuda\" (", sources.of("parallel.server_device"), ")"), cuda.error());
  return cuda;
}

}  // namespace troupe
