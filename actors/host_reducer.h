#pragma once
#include <chrono>
#include <memory>
#include <vector>

#include <troupe/actors/reducer.h>
#include <troupe/kernels/backend/backend.h>
#include <troupe/kernels/tensor/executor.h>

namespace troupe {

struct HostReducerParts {
  std::shared_ptr<Backend> backend;
  int device = 0;
  std::shared_ptr<Executor> queue;  ///< this worker's alone, for what waits
  std::vector<LayerSpec> layers;
  bool norm = false;                ///< of gradients, for clipping
  Track track;
  /// How long whoever has lost the others waits for the coordinator to say how it goes on.
  std::chrono::milliseconds patience{120'000};
};

/// A worker's end of the group of its host's devices, whichever processes they are in: gradients that are going to
/// servers are added up on the devices first, and the sum is brought to host memory by the lowest worker alone, which
/// gives the weights that follow to the devices of all. A step's own gradients are kept on the device until the next step,
/// in case the group ends before its sums are stored.
///
/// A member that is lost takes nobody with it: the others wait until they are told to leave the group, for `patience`. A
/// failure of the own device, and members that plan other calls, are a TaskFailed at once.
std::shared_ptr<Reducer> make_host_reducer(HostReducerParts parts);

}  // namespace troupe
