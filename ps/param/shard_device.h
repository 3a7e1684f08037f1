#pragma once
#include <functional>
#include <memory>
#include <string>

#include <troupe/kernels/backend/backend.h>
#include <troupe/ps/param/device_optimizer.h>

namespace troupe::ps {

/// The device that one shard's parameters and optimizer state live on, and the streams of the shard there:
///
///     in        [gradients of a push]          [gradients of the next]
///     compute                         [update]                         [update]
///     out                                      [new values]                     [new values]
///
/// Everything is submitted and goes on by itself. Who reads host memory that the device writes waits for it, with
/// `then` or `wait`. One thread at a time. Where there is no memory for something it throws std::runtime_error, which
/// says how much was asked for, for what, and by which shard.
class ShardDevice {
 public:
  /// `owner` is for errors ("server 0"); `optimizer` is what the shard's was made of. `invalid` where the backend has
  /// no such device or no optimizer steps, `exhausted` where the device has no memory left. May take seconds.
  static Result<std::shared_ptr<ShardDevice>> make(std::string owner, std::shared_ptr<Backend> backend, int index,
                                                   OptimizerOptions optimizer);
  /// Waits until the device has done what was submitted.
  ~ShardDevice();

  /// A copy on the device of what lies in host memory, which is kept until it has been read.
  Tensor send(const Tensor& host, const std::string& use);
  void send(const Tensor& host, Tensor& device);  ///< into memory that `send` gave
  /// The other way round, for whoever waits (see above).
  Tensor fetch(const Tensor& device, const std::string& use);
  /// Sums the gradients in this order and takes one step: `update` has the device's tensors but for the gradient.
  void step(std::span<const Segment> segments, std::span<const Tensor> gradients, const DeviceUpdate& update,
            const std::string& use);

  /// How many fetches have begun.
  uint64_t fetches() const { return fetches_; }
  /// Calls `done` when all of them have ended, from a thread of the device's, where it must be brief and submit
  /// nothing.
  void then(std::function<void(Status)> done) { out_->then(std::move(done)); }
  /// Returns when all of them have ended. Never on an actor's thread.
  Status wait() { return out_->wait(); }

 private:
  ShardDevice(std::string owner, std::shared_ptr<Backend> backend, OptimizerOptions optimizer);

  template <class Allocate>
  Tensor allocate(Shape shape, const std::string& use, const Allocate& allocate) const;
  Tensor empty(Shape shape, const std::string& use) const;
  void copy_in(const Tensor& host, Tensor& device);

  std::string owner_;
  std::shared_ptr<Backend> backend_;
  DeviceOptimizer optimizer_;
  std::unique_ptr<Stream> in_, compute_, out_;
  uint64_t fetches_ = 0;
};

}  // namespace troupe::ps
