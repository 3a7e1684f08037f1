#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include <troupe/kernels/nn/dataset.h>
#include <troupe/kernels/nn/model.h>
#include <troupe/ps/pipeline/layer_profile.h>

namespace troupe::ps {

struct MeasureOptions {
  int64_t micro_batch = 1;  ///< samples; at most as many as the data set has
  int threads = 1;          ///< a kernel may use
  uint64_t seed = 1;        ///< of the weights
  DType storage = DType::f32;  ///< of activations
  double seconds = 2;       ///< to spend; at least three passes are made
};

/// Runs micro-batches through the model on this thread, on the CPU, and takes the times between every two places
/// where it can be cut, as a stage would compute them: reading the samples is in the first row's forward, the loss in
/// the last row's. Times are medians over the passes after a first one that is not counted; bytes are what the
/// buffers held. `now_s` is a clock, in seconds from anywhere. Nothing else should allocate buffers meanwhile.
LayerProfile measure_layers(std::shared_ptr<const nn::Model> model, std::shared_ptr<const nn::Dataset> data,
                            const MeasureOptions& options, const std::function<double()>& now_s);

}  // namespace troupe::ps
