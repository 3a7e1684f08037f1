#include <algorithm>
#include <thread>

#include "bench.h"

using namespace troupe;

SyntheticSource::SyntheticSource(std::vector<LayerSpec> layers, std::vector<Tensor> gradients, Options options)
    : layers_(std::move(layers)), gradients_(std::move(gradients)), options_(std::move(options)) {}

void SyntheticSource::initialize(size_t, uint64_t, std::span<float> values) { std::ranges::fill(values, 1.f); }

StepStats SyntheticSource::backward(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready) {
  if (options_.weights_seen) options_.weights_seen(weights);
  if (options_.step_time.count() > 0) std::this_thread::sleep_for(options_.step_time);
  for (size_t layer = layers_.size(); layer-- > 0;)
    ready(layer, options_.fresh ? gradients_[layer].clone() : gradients_[layer]);
  return {1, 0, static_cast<int64_t>(batch.samples.size())};
}

std::vector<LayerSpec> synthetic_layers(size_t count, int64_t elements) {
  std::vector<LayerSpec> layers;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = "layer" + std::to_string(i);
    layers.push_back({name, elements, {{name + ".weight", {elements}, 0}}});
  }
  return layers;
}

std::vector<Tensor> synthetic_gradients(const std::vector<LayerSpec>& layers) {
  std::vector<Tensor> gradients;
  for (const LayerSpec& layer : layers) {
    gradients.push_back(Tensor::empty({layer.count}));
    std::ranges::fill(gradients.back().span<float>(), 1e-3f);
  }
  return gradients;
}

ClusterParts synthetic_parts(size_t workers, uint32_t servers, ps::Policy policy, const std::vector<LayerSpec>& layers,
                             std::chrono::microseconds step_time) {
  ClusterParts parts;
  parts.coordinator.layers = layers;
  parts.coordinator.policies.assign(layers.size(), policy);
  parts.coordinator.layout.servers = servers;
  parts.coordinator.dealer.train_samples = int64_t{1} << 30;
  parts.coordinator.dealer.global_batch = static_cast<int64_t>(workers);
  parts.coordinator.dealer.worker_batch.assign(workers, 1);
  parts.shuffle = false;
  parts.optimizer = *ps::make_optimizer({.name = "sgd", .learning_rate = 0.01});
  const bool fresh = policy.mode == ps::Mode::all_reduce;
  parts.source = [layers, gradients = synthetic_gradients(layers), step_time, fresh](ps::WorkerId) {
    return std::make_unique<SyntheticSource>(layers, gradients, SyntheticSource::Options{step_time, fresh, {}});
  };
  parts.initial = initial_from(parts.source(0), *parts.optimizer, 1);
  return parts;
}
