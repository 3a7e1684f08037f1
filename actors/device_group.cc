#include <troupe/actors/device_group.h>

namespace troupe {

Result<std::vector<std::unique_ptr<Communicator>>> DeviceGroup::make() const {
  std::vector<int> devices;
  for (ps::WorkerId worker = 0; worker < size_; ++worker) {
    const auto device = seat_(worker);
    if (!device) return tl::unexpected<Error>(device.error());
    devices.push_back(*device);
  }
  return backend_->make_group(devices);
}

Result<std::shared_ptr<Communicator>> DeviceGroup::join(size_t rank) {
  TROUPE_CHECK(rank < size_, "rank ", rank, " of ", size_);
  std::lock_guard making(making_);
  {
    std::lock_guard lock(mutex_);
    if (!status_) return tl::unexpected<Error>(status_.error());
    if (!ranks_.empty()) return ranks_[rank];
  }
  auto made = make();
  std::lock_guard lock(mutex_);
  if (!status_) return tl::unexpected<Error>(status_.error());
  if (!made) {
    status_ = tl::unexpected<Error>(made.error());
    return tl::unexpected<Error>(made.error());
  }
  for (auto& communicator : *made) ranks_.push_back(std::move(communicator));
  return ranks_[rank];
}

void DeviceGroup::abort(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (!status_) return;
  status_ = fail(ErrorKind::cancelled, reason);
  for (const auto& communicator : ranks_) communicator->abort(reason);
}

}  // namespace troupe
