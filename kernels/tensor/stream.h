#pragma once
#include <cstddef>
#include <functional>
#include <memory>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/tensor/buffer.h>
#include <troupe/kernels/tensor/device.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe {

/// What a backend keeps with a stream: compiled kernels, library handles. Dies with the stream.
class StreamState {
 public:
  virtual ~StreamState() = default;
};

/// Where ops are submitted: a device, how many threads a call may use, and memory to work in. Work submitted
/// to a stream runs in order. On the CPU it runs at once, on the calling thread, and is done when the call
/// returns; other devices derive their own. One thread at a time may use a stream; different streams may be used at
/// the same time.
class Stream {
 public:
  /// `threads` may add up, over all streams that compute at once, to no more than the cores that are free: a
  /// parallel loop ends when its last thread has had a core. On two free cores two threads took a convolution
  /// from 126 to 220-240 GFLOP/s; on two cores busy with other work a product of 128 x 256 x 512 ran at 46
  /// GFLOP/s with one thread and at 1.2 with two.
  explicit Stream(Device device = {}, int threads = 1) : device_(device), threads_(threads) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  Device device() const { return device_; }
  int threads() const { return threads_; }

  /// Memory of the device for what is submitted from here on. std::bad_alloc where there is none.
  virtual BufferPtr allocate(size_t bytes);
  Tensor empty(Shape shape, DType dtype = DType::f32) {
    return Tensor(allocate(static_cast<size_t>(shape.count()) * size_of(dtype)), 0, shape, dtype);
  }

  /// The elements of `from` into `to`, of equal count and dtype, wherever each lies: host memory or the device.
  virtual void copy(const Tensor& from, Tensor& to);

  /// Calls `done` once everything submitted before has run: at once on the CPU, else from a thread of the device's
  /// library, where it must be brief and submit nothing. What failed is in the status.
  virtual void then(std::function<void(Status)> done) { done({}); }
  /// Returns when everything submitted has run. Never called on an actor's thread.
  virtual Status wait() { return {}; }

  /// At least `bytes` of memory of the device for the op that runs, aligned to 64 bytes, contents undefined.
  /// The next call returns the same memory, so an op asks once. It grows to the largest request and stays.
  std::byte* scratch(size_t bytes);

  /// Made by the backend on first use; a stream serves one backend.
  std::unique_ptr<StreamState>& state() { return state_; }

 private:
  Device device_;
  int threads_;
  BufferPtr scratch_;
  std::unique_ptr<StreamState> state_;
};

}  // namespace troupe
