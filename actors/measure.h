#pragma once
#include <memory>
#include <utility>
#include <vector>

#include <troupe/kernels/backend/backend.h>
#include <troupe/kernels/nn/gradient_measure.h>
#include <troupe/kernels/nn/gradient_source.h>
#include <troupe/kernels/ops/ops.h>
#include <troupe/kernels/tensor/stream.h>

namespace troupe {

/// The sum of squares that clipping wants (only if asked for; statistics are no part of it), and whether all elements
/// are finite. The gradient is complete, and lies where `stream` and `ops` work; waits for the stream, and throws what
/// failed on the device. On a thread for computing.
std::pair<double, bool> measure(Stream& stream, const ops::Ops& ops, const LayerSpec& layer, const Tensor& gradient,
                                bool norm);

/// The same of gradients on a device, on a stream of its own. One thread at a time.
class DeviceMeter {
 public:
  DeviceMeter(std::shared_ptr<Backend> backend, int device, std::vector<LayerSpec> layers, bool norm)
      : backend_(std::move(backend)), device_(device), layers_(std::move(layers)), norm_(norm) {}
  std::pair<double, bool> measure(size_t layer, const Tensor& gradient);

 private:
  std::shared_ptr<Backend> backend_;
  int device_;
  std::vector<LayerSpec> layers_;
  bool norm_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace troupe
