#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/reducer.h>
#include <troupe/kernels/backend/backend.h>
#include <troupe/kernels/tensor/executor.h>
#include <troupe/ps/param/device_optimizer.h>

namespace troupe {

struct DeviceReducerParts {
  std::shared_ptr<Backend> backend;
  int device = 0;
  /// This worker's end of its group. Called on `queue`, where it may wait.
  std::function<Result<std::shared_ptr<Communicator>>()> join;
  std::function<void(const std::string& reason)> abort;  ///< of the group, joined or not; from any thread
  std::shared_ptr<Executor> queue;                       ///< this worker's alone, for what waits
  std::vector<LayerSpec> layers;
  ps::DeviceOptimizer optimizer;
  bool norm = false;  ///< of gradients and sums, for clipping
  Track track;
};

/// Workers with a device each, whose all_reduce layers never leave it: parameters and optimizer state lie there, as
/// every worker's own copy.
///
///     compute stream   backward: [fc3][fc2][fc1]                                       next step
///     group's stream                  [pack fc3 fc2|all-reduce|update]  [fc1 ...]
///
/// A bucket's gradients are packed into one piece of memory, summed by one call and used up by the optimizer where the
/// sum lies, in order on the group's stream, while the backward pass goes on. What comes in host memory (a first step's
/// parameters, the zeros of a worker without samples) goes to the device by itself. Whoever cannot go on reports it and
/// aborts the group: the others of it report nothing more.
std::shared_ptr<Reducer> make_device_reducer(DeviceReducerParts parts);

}  // namespace troupe
