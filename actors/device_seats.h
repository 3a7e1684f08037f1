#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <troupe/kernels/backend/backend.h>
#include <troupe/ps/config/load.h>
#include <troupe/ps/ids.h>

namespace troupe {

/// Which device each worker of this process computes on: the CPU for all of them, or a GPU each. Thread-safe.
class DeviceSeats {
 public:
  /// As `[parallel] device` says; the module for GPUs is loaded where it has to be. `spread`: the run lives in several
  /// processes, of which this one gets some of the workers. Otherwise "cuda" with fewer devices than workers is
  /// `invalid`, and "auto" takes the CPU. What is missing for "cuda" is an error that names it.
  static Result<std::shared_ptr<DeviceSeats>> choose(const ps::RunConfig& config, const ps::Sources& sources,
                                                     bool spread);

  /// Seats over a backend that is there already.
  explicit DeviceSeats(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}

  /// Where `worker` computes; the same after a restart. Processes of one host that see the same devices begin at
  /// different ones. `invalid` where all devices have a worker.
  Result<int> seat(ps::WorkerId worker);

  const std::shared_ptr<Backend>& backend() const { return backend_; }
  /// A sentence for the log: what the workers compute on, and why "auto" did not take GPUs. Empty for device = "cpu".
  const std::string& note() const { return note_; }

 private:
  std::shared_ptr<Backend> backend_;
  std::string note_;
  std::mutex mutex_;
  std::map<ps::WorkerId, int> seats_;
};

/// Where servers of this process keep parameters and optimizer state, as `[parallel] server_device` says: null for host
/// memory. What is missing for "cuda" is an error that names it.
Result<std::shared_ptr<Backend>> server_backend(const ps::RunConfig& config, const ps::Sources& sources);

}  // namespace troupe
