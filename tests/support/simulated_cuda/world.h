#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include <tests/support/simulated_cuda/simulated_cuda.h>
#include <troupe/kernels/base/random.h>
#include <troupe/kernels/base/text.h>

/// What the runtime's and NCCL's halves of the simulation share.
namespace troupe::test::simulated_cuda {

/// A stream's thread and what it has to do, alive until both the stream and whoever waits for it have gone.
class Queue {
 public:
  Queue(int device, uint64_t seed) : device(device), random_(seed), thread_([this] { run(); }) {}
  /// Ends with what was pushed before.
  void close() {
    push({});
    thread_.join();
  }
  /// False where it is closed, as a stream may be while another thread waits for its device.
  bool push(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return false;
      closed_ = !task;
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
    return true;
  }
  void wait() {
    struct Gate {
      std::mutex mutex;
      std::condition_variable opened;
      bool open = false;
    };
    const auto gate = std::make_shared<Gate>();
    const bool is_open = push([gate] {
      std::lock_guard lock(gate->mutex);
      gate->open = true;
      gate->opened.notify_all();
    });
    if (!is_open) return;
    std::unique_lock lock(gate->mutex);
    gate->opened.wait(lock, [&] { return gate->open; });
  }

  const int device;

 private:
  void run() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !tasks_.empty(); });
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task) return;
      if (random_.uniform() < 0.2) std::this_thread::sleep_for(std::chrono::microseconds(50));
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool closed_ = false;
  Random random_;
  std::thread thread_;
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
