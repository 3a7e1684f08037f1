#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

/// CUDA's runtime and NCCL on threads, under their own names, so that what the CUDA backend does with streams, events,
/// memory, graphs and communicators (kernels/tensor/cuda, kernels/collective/nccl, kernels/backend/cuda) runs on a
/// machine without a GPU. There are kDevices devices. A stream is a thread that is late now and then; memory of a
/// device is host memory that is spoilt when it is freed.
///
/// It keeps the rules that CUDA states and real devices enforce, or punish later: what breaks one is noted
/// (`broken_rules`). An error of a kernel is met by whatever asks next, and lasts. An event that has not passed is the
/// calling thread's last error. What is done from a callback is refused. Freeing waits for the device. Collectives that
/// ranks do not agree on never end, until somebody aborts.
///
/// What is not simulated: more than one device failing apart from another, priorities, unified memory.
namespace troupe::test::simulated_cuda {

constexpr int kDevices = 3;
constexpr size_t kMemory = size_t{2} << 30;

/// A kernel, submitted as a launch would be: runs when the stream comes to it, or is captured. What it returns other
/// than cudaSuccess the devices have from then on. A launch that CUDA refuses sets the last error.
void launch(cudaStream_t stream, std::function<cudaError_t()> kernel);

/// Sentences since the last call.
std::vector<std::string> broken_rules();

struct Alive {
  int streams = 0, events = 0, graphs = 0, device_blocks = 0, pinned_blocks = 0, communicators = 0;
  bool operator==(const Alive&) const = default;
};
Alive alive();

/// Bytes that all devices have together; kMemory at first.
void set_memory(size_t bytes);
/// Graphs cannot be instantiated from here on, or can again.
void refuse_graphs(bool refuse);
/// Devices are well again, with all their memory.
void repair();

/// Until so many ranks' kernels wait for others'.
void await_waiting_kernels(int count);
/// All communicators that there are hear that a peer is gone, of groups that have such a rank.
void lose_rank(int rank);

}  // namespace troupe::test::simulated_cuda
