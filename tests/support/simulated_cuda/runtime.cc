#include <algorithm>
#include <cstring>
#include <utility>

#include <tests/support/simulated_cuda/world.h>

using namespace troupe;
using namespace troupe::test::simulated_cuda;

namespace {

/// At the beginning of what CUDA refuses after a failure, and in callbacks.
cudaError_t enter(const char* function) {
  if (in_callback) {
    world().broke(cat(function, " was called from a callback"));
    return answer(cudaErrorNotPermitted);
  }
  return answer(world().failed);
}

#define ENTER() \
  if (const cudaError_t error = enter(__func__); error != cudaSuccess) return error

void run_kernel(const std::function<cudaError_t()>& kernel) {
  if (world().failed != cudaSuccess) return;
  if (const cudaError_t error = kernel(); error != cudaSuccess) world().failed = error;
}

cudaError_t free_block(void* at, bool pinned) {
  if (!at) return cudaSuccess;
  std::vector<std::shared_ptr<Queue>> busy;
  {
    std::lock_guard lock(world().mutex);
    busy = world().queues;
  }
  for (const auto& queue : busy) queue->wait();
  std::lock_guard lock(world().mutex);
  const auto found = world().blocks.find(static_cast<std::byte*>(at));
  if (found == world().blocks.end() || !found->second.live || (found->second.device < 0) != pinned) {
    world().broken.push_back("memory was freed that is not there");
    return answer(cudaErrorInvalidValue);
  }
  found->second.live = false;
  std::memset(at, 0xf7, found->second.bytes);  // kept, so that whoever still uses it reads this
  if (!pinned) world().taken -= found->second.bytes;
  --(pinned ? world().alive.pinned_blocks : world().alive.device_blocks);
  return answer(world().failed);
}

cudaError_t take_block(void** at, size_t bytes, int device) {
  std::lock_guard lock(world().mutex);
  if (device >= 0 && world().taken + bytes > world().memory) return answer(cudaErrorMemoryAllocation);
  if (device >= 0) world().taken += bytes;
  auto* block = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{256}));
  std::memset(block, 0xf7, bytes);
  world().blocks[block] = {bytes, device, true};
  ++(device < 0 ? world().alive.pinned_blocks : world().alive.device_blocks);
  *at = block;
  return cudaSuccess;
}

}  // namespace

struct CUevent_st {
  struct Point {
    std::mutex mutex;
    std::condition_variable changed;
    bool passed = false;
  };
  std::mutex mutex;
  std::shared_ptr<Point> newest;  ///< recorded
};

// ---- errors, devices -----------------------------------------------------------------------------------------------

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    default: return "cudaError";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered" : "as its name says";
}
cudaError_t cudaGetLastError() {
  if (in_callback) world().broke("cudaGetLastError was called from a callback");
  const cudaError_t last = std::exchange(last_error, cudaSuccess);
  return world().failed != cudaSuccess ? world().failed.load() : last;
}
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { return *count = kDevices, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "simulated device");
  properties->totalGlobalMem = kMemory;
  properties->multiProcessorCount = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  ENTER();
  if (device < 0 || device >= kDevices) return answer(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

// ---- memory --------------------------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** at, size_t bytes) {
  ENTER();
  return take_block(at, bytes, current_device);
}
cudaError_t cudaHostAlloc(void** at, size_t bytes, unsigned flags) {
  ENTER();
  if (flags != cudaHostAllocPortable) world().broke("pinned memory for one device alone");
  return take_block(at, bytes, -1);
}
cudaError_t cudaFree(void* at) {
  if (in_callback) return enter(__func__);
  return free_block(at, false);
}
cudaError_t cudaFreeHost(void* at) {
  if (in_callback) return enter(__func__);
  return free_block(at, true);
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  ENTER();
  std::lock_guard lock(world().mutex);
  *free = world().memory - world().taken;
  *total = world().memory;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* at) {
  ENTER();
  std::lock_guard lock(world().mutex);
  const World::Block* block = world().find(at, 1);
  attributes->type = !block               ? cudaMemoryTypeUnregistered
                     : block->device >= 0 ? cudaMemoryTypeDevice
                                          : cudaMemoryTypeHost;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  ENTER();
  {
    std::lock_guard lock(world().mutex);
    if (!world().find(to, bytes) || !world().find(from, bytes))
      world().broken.push_back("an asynchronous copy of memory that is not pinned or not there");
  }
  stream->submit([=] {
    run_kernel([=] {
      std::lock_guard lock(world().mutex);
      if (!world().find(to, bytes) || !world().find(from, bytes)) return cudaErrorIllegalAddress;
      std::memcpy(to, from, bytes);
      return cudaSuccess;
    });
  });
  return cudaSuccess;
}

// ---- streams and events --------------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  ENTER();
  if (flags != cudaStreamNonBlocking) world().broke("a stream that waits for the default stream");
  std::lock_guard lock(world().mutex);
  const auto queue = std::make_shared<Queue>(current_device, ++world().streams_made);
  *made = new CUstream_st{queue, nullptr};
  world().queues.push_back(queue);
  ++world().alive.streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (in_callback) return enter(__func__);
  {
    std::lock_guard lock(world().mutex);
    std::erase(world().queues, stream->queue);
    --world().alive.streams;
  }
  stream->queue->close();
  delete stream;
  return answer(world().failed);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (in_callback) return enter(__func__);
  if (stream->capture) return stream->capture_broken = true, answer(cudaErrorStreamCaptureUnsupported);
  stream->queue->wait();
  return answer(world().failed);
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned) {
  ENTER();
  if (stream->capture) return stream->capture_broken = true, answer(cudaErrorStreamCaptureUnsupported);
  stream->queue->push([=] {
    in_callback = true;
    callback(stream, world().failed, data);
    in_callback = false;
  });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned) {
  ENTER();
  *made = new CUevent_st;
  world().count(&Alive::events, 1);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (in_callback) return enter(__func__);
  delete event;
  world().count(&Alive::events, -1);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  ENTER();
  if (stream->capture) world().broke("an event was recorded in a capture");
  const auto point = std::make_shared<CUevent_st::Point>();
  {
    std::lock_guard lock(event->mutex);
    event->newest = point;
  }
  stream->queue->push([point] {
    std::lock_guard lock(point->mutex);
    point->passed = true;
    point->changed.notify_all();
  });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  ENTER();
  std::shared_ptr<CUevent_st::Point> point;
  {
    std::lock_guard lock(event->mutex);
    point = event->newest;
  }
  if (!point) return cudaSuccess;
  std::lock_guard lock(point->mutex);
  return point->passed ? cudaSuccess : answer(cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  ENTER();
  if (stream->capture) world().broke("a capture waits for what is outside of it");
  std::shared_ptr<CUevent_st::Point> point;
  {
    std::lock_guard lock(event->mutex);
    point = event->newest;
  }
  if (!point) return cudaSuccess;
  stream->queue->push([point] {
    std::unique_lock lock(point->mutex);
    point->changed.wait(lock, [&] { return point->passed; });
  });
  return cudaSuccess;
}

// ---- graphs --------------------------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  ENTER();
  if (stream->capture) return answer(cudaErrorIllegalState);
  stream->capture = std::make_unique<CUgraph_st>();
  stream->capture_broken = false;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  ENTER();
  if (!stream->capture) return answer(cudaErrorIllegalState);
  auto captured = std::move(stream->capture);
  *graph = nullptr;
  if (stream->capture_broken) return answer(cudaErrorStreamCaptureInvalidated);
  *graph = captured.release();
  world().count(&Alive::graphs, 1);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  ENTER();
  std::lock_guard lock(world().mutex);
  if (world().refuses_graphs) return answer(cudaErrorNotSupported);
  *made = new CUgraphExec_st{std::make_shared<const std::vector<std::function<void()>>>(graph->tasks)};
  ++world().alive.graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  world().count(&Alive::graphs, -1);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  world().count(&Alive::graphs, -1);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  ENTER();
  stream->queue->push([tasks = graph->tasks] {
    for (const auto& task : *tasks) task();
  });
  return cudaSuccess;
}

// ---- for tests -----------------------------------------------------------------------------------------------------

namespace troupe::test::simulated_cuda {

void launch(cudaStream_t stream, std::function<cudaError_t()> kernel) {
  if (enter("a launch") != cudaSuccess) return;
  if (stream->queue->device != current_device) {
    world().broke("a launch on a stream of another device");
    answer(cudaErrorInvalidResourceHandle);
    return;
  }
  stream->submit([kernel = std::move(kernel)] { run_kernel(kernel); });
}

std::vector<std::string> broken_rules() {
  std::lock_guard lock(world().mutex);
  return std::exchange(world().broken, {});
}

Alive alive() {
  std::lock_guard lock(world().mutex);
  return world().alive;
}

void set_memory(size_t bytes) {
  std::lock_guard lock(world().mutex);
  world().memory = bytes;
}

void refuse_graphs(bool refuse) {
  std::lock_guard lock(world().mutex);
  world().refuses_graphs = refuse;
}

void repair() {
  world().failed = cudaSuccess;
  last_error = cudaSuccess;
  refuse_graphs(false);
  set_memory(kMemory);
}

}  // namespace troupe::test::simulated_cuda
