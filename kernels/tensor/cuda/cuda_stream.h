#pragma once
#include <cuda_runtime_api.h>

#include <deque>
#include <utility>

#include <troupe/kernels/backend/backend.h>
#include <troupe/kernels/tensor/cuda/op_trail.h>
#include <troupe/kernels/tensor/internal/block_cache.h>

namespace troupe::cuda {

/// Owns a CUDA event without timing.
class Event {
 public:
  Event();
  ~Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A stream of one CUDA device. Work is submitted and the call returns; one thread at a time submits.
///
/// Memory comes from caches that outlive the stream in the buffers they made (internal/block_cache.h). A copy between
/// the device and host memory that is not pinned goes through pinned blocks: what is read has been read when `copy`
/// returns, what is written is written once the stream has come to it. What a copy uses is held until it has run.
///
/// An error of a kernel shows only later, at whatever asks next, and lasts: it is told with the ops that were under
/// way, one of which is at fault (op_trail.h). Gradients are waited for one by one, so that these are a layer's or two.
class CudaStream final : public Stream {
 public:
  CudaStream(const StreamOptions& options, std::shared_ptr<BlockCache> memory, std::shared_ptr<BlockCache> pinned);
  ~CudaStream() override;

  BufferPtr allocate(size_t bytes) override;
  void copy(const Tensor& from, Tensor& to) override;
  void then(std::function<void(Status)> done) override;
  Status wait() override;

  /// What is submitted from here on runs after what has been submitted to `earlier`.
  void wait_for(CudaStream& earlier);
  /// Before what an op launches: the calling thread's device becomes the stream's, and errors are told with this name.
  void begin_op(const char* name);
  /// After each launch. Throws CudaFailure where the launch or something before it failed.
  void launched(const char* kernel);

  /// Backend::begin_capture and the two that follow it.
  Status begin_capture(std::shared_ptr<BlockCache>& memory);
  Result<std::unique_ptr<LaunchGraph>> end_capture();
  Status replay(LaunchGraph& graph);

  cudaStream_t handle() const { return stream_; }
  MatmulPrecision matmul() const { return matmul_; }
  LaunchCounts launches() const { return launches_; }

 private:
  struct Held {
    Event passed;
    OpTrail::Marks marks;
    std::vector<BufferPtr> buffers;
  };

  std::string told(cudaError_t error) const;
  void check(cudaError_t error) const;
  /// The calling thread's device becomes this one.
  void enter() const;
  /// Keeps the buffers until the stream has come here.
  void hold(std::vector<BufferPtr> buffers);
  void drop_passed();
  void refuse_in_capture(const char* what) const;
  /// Throws where memory is missing because the device has failed.
  void check_device() const;
  BufferPtr staging(size_t bytes);
  void copy_from_pageable(const std::byte* from, std::byte* to, size_t bytes);
  void copy_to_pageable(const Tensor& from, Tensor& to);

  MatmulPrecision matmul_;
  std::shared_ptr<BlockCache> memory_, pinned_;
  cudaStream_t stream_ = nullptr;
  Event here_;  ///< of wait_for
  std::deque<Held> held_;
  std::vector<Event> free_events_;
  const char* op_ = "none";  ///< the newest
  OpTrail trail_;
  std::shared_ptr<BlockCache> captured_memory_;  ///< while something is captured
  LaunchCounts launches_;
};

/// Every stream that the CUDA backend makes is one.
inline CudaStream& cuda_stream(Stream& stream) {
  TROUPE_CHECK(stream.device().kind == DeviceKind::cuda, "a CUDA op on a stream of the CPU");
  return static_cast<CudaStream&>(stream);
}

}  // namespace troupe::cuda
