#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include <tests/support/late_queue.h>
#include <tests/support/simulated_cuda/simulated_cuda.h>
#include <troupe/kernels/base/text.h>

/// What the runtime's and NCCL's halves of the simulation share.
namespace troupe::test::simulated_cuda {

/// A stream's thread, alive until both the stream and whoever waits for it have gone.
struct Queue : LateQueue {
  Queue(int of_device, uint64_t seed) : LateQueue(seed), device(of_device) {}
  const int device;
};

struct World {
  std::mutex mutex;
  std::vector<std::string> broken;
  Alive alive;
  std::atomic<cudaError_t> failed = cudaSuccess;  ///< for ever
  size_t memory = kMemory, taken = 0;
  bool refuses_graphs = false;
  uint64_t streams_made = 0;
  std::vector<std::shared_ptr<Queue>> queues;

  struct Block {
    size_t bytes = 0;
    int device = -1;  ///< -1: pinned
    bool live = true;
  };
  std::map<const std::byte*, Block> blocks;

  /// The live block that holds all of these bytes.
  const Block* find(const void* at, size_t bytes) {
    const auto* p = static_cast<const std::byte*>(at);
    auto found = blocks.upper_bound(p);
    if (found == blocks.begin()) return nullptr;
    --found;
    const bool inside = p + bytes <= found->first + found->second.bytes;
    return inside && found->second.live ? &found->second : nullptr;
  }
  /// One more, or one less, of what is alive.
  void count(int Alive::*kind, int change) {
    std::lock_guard lock(mutex);
    alive.*kind += change;
  }
  void broke(std::string what) {
    std::lock_guard lock(mutex);
    broken.push_back(std::move(what));
  }
};

inline World& world() {
  static World* const all = new World;  // streams may end with the program
  return *all;
}

inline thread_local bool in_callback = false;
inline thread_local int current_device = 0;
inline thread_local cudaError_t last_error = cudaSuccess;

inline cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace troupe::test::simulated_cuda

using troupe::test::simulated_cuda::Queue;

struct CUgraph_st {
  std::vector<std::function<void()>> tasks;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<std::function<void()>>> tasks;
};
struct CUstream_st {
  std::shared_ptr<Queue> queue;
  std::unique_ptr<CUgraph_st> capture;
  bool capture_broken = false;

  void submit(std::function<void()> task) {
    if (capture)
      capture->tasks.push_back(std::move(task));
    else
      queue->push(std::move(task));
  }
};
