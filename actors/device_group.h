#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/kernels/backend/backend.h>
#include <troupe/ps/ids.h>

namespace troupe {

/// The devices of a process's workers as one group for collectives, made when the first of them has something to
/// reduce. Thread-safe.
class DeviceGroup {
 public:
  /// `size` ranks, rank r on device seat(r) of `backend`.
  using Seat = std::function<Result<int>(ps::WorkerId)>;
  DeviceGroup(std::shared_ptr<Backend> backend, Seat seat, size_t size)
      : backend_(std::move(backend)), seat_(std::move(seat)), size_(size) {}

  /// Rank `rank`'s end, the same at every call. Making the group may take seconds: never on an actor's thread. Why it
  /// could not be made all ranks hear alike; after an abort it is `cancelled`.
  Result<std::shared_ptr<Communicator>> join(size_t rank);
  /// Whoever waits in the group, or joins it later, hears this reason. The first one stays.
  void abort(const std::string& reason);

 private:
  Result<std::vector<std::unique_ptr<Communicator>>> make() const;

  std::shared_ptr<Backend> backend_;
  Seat seat_;
  size_t size_;
  std::mutex making_;  ///< held while the group is made
  std::mutex mutex_;   ///< of what follows
  std::vector<std::shared_ptr<Communicator>> ranks_;
  Status status_;
};

}  // namespace troupe
