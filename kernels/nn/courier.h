#pragma once
#include <deque>
#include <future>
#include <memory>
#include <vector>

#include <troupe/kernels/backend/backend.h>
#include <troupe/kernels/nn/gradient_source.h>

namespace troupe::nn {

/// What one worker's computing and the rest of the run have of each other: batches and weights go to the device,
/// gradients come back to host memory, which is where servers, collectives and the network find them. Copies run on a
/// stream of their own, so that a layer is computed while the next one's weights are on their way and the last one's
/// gradient is on its way back. On the CPU nothing is copied: what comes in is handed on.
///
/// Weights may be on the device already, all that was written to them done. They are used where they are, and that
/// layer's gradient stays there, too.
///
/// One thread at a time, the one that may use the compute stream. It waits in `deliver`, `receive` and the destructor.
class Courier {
 public:
  /// `backend` made `compute`. `copies`: another of its streams; unused (may be null) on the CPU.
  Courier(std::shared_ptr<Backend> backend, Stream& compute, std::unique_ptr<Stream> copies,
          const std::vector<LayerSpec>& layers);
  /// Waits for what was submitted.
  ~Courier();

  /// Host memory that a batch is read into.
  Tensor host(Shape shape, DType dtype) const;
  /// `host` on the device, for what is submitted to the compute stream from here on.
  Tensor to_device(const Tensor& host);

  /// A pass begins, whose weights may be others than those of the pass before.
  void begin_pass();
  /// Weights of layers [first, last) on the device, for what is submitted to the compute stream from here on; by layer,
  /// those of other layers as this pass left them. A layer whose tensor is the one sent last is not sent again.
  std::span<const Tensor> weights(std::span<const Tensor> host, size_t first, size_t last);

  /// Which layers' gradients stay on the device, besides those whose weights are there.
  void leave_on_device(std::span<const size_t> layers);
  /// Whether this layer's does.
  bool leaves(size_t layer) const { return left_[layer] || stays(layer); }

  /// A gradient that the compute stream works out: `ready` hears of it, on this thread, now or in a later call, in the
  /// order of these calls.
  void give(size_t layer, Tensor gradient, const GradientSource::GradientReady& ready);
  /// Waits for the gradients that are not back yet, and until weights that came on the device are not read any more.
  /// What failed on the device is thrown.
  void deliver(const GradientSource::GradientReady& ready);

  /// Something that is worked out, and perhaps on its way to host memory.
  struct Parcel {
    size_t layer = 0;
    Tensor values;
    std::future<Status> arrival;  ///< none where it was there already
  };
  /// What the compute stream works out goes to host memory.
  Parcel send_back(const Tensor& device);
  /// Waits for it. What failed on the device is thrown.
  static Tensor receive(Parcel parcel);

 private:
  bool stays(size_t layer) const { return sent_[layer] && sent_[layer].device() == compute_.device(); }
  bool on_cpu() const { return backend_->kind() == DeviceKind::cpu; }
  Parcel follow(Stream& stream, Tensor values) const;
  void hand_over(const GradientSource::GradientReady& ready);

  std::shared_ptr<Backend> backend_;
  Stream& compute_;
  std::unique_ptr<Stream> copies_;
  std::vector<std::string> names_;
  std::vector<Tensor> sent_;     ///< by layer: the tensor whose values are in...
  std::vector<Tensor> weights_;  ///< ...this one, which is the same where it came on the device
  std::vector<bool> left_;       ///< by layer: its gradient stays
  std::deque<Parcel> parcels_;   ///< in the order given
};

}  // namespace troupe::nn
