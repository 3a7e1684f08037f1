#include <troupe/ps/config/run_config.h>

#include <algorithm>

#include <troupe/kernels/base/parse.h>

namespace troupe::ps {

std::vector<int64_t> worker_batches(const RunConfig& config) {
  const ParallelSection& p = config.parallel;
  const std::vector<int64_t> shares =
      p.worker_batch.empty() ? equal_split(config.train.batch_size, p.replicas()) : p.worker_batch;
  std::vector<int64_t> batches;
  for (const int64_t share : shares) batches.insert(batches.end(), static_cast<size_t>(p.stages), share);
  return batches;
}

int64_t reduce_threads(const RunConfig& config, int64_t cores) {
  const ParallelSection& p = config.parallel;
  if (p.reduce_threads >= 0) return p.reduce_threads;
  return std::clamp<int64_t>(cores - p.workers * p.threads_per_worker, 0, p.workers);
}

DType storage_type(const PrecisionSection& precision) {
  switch (precision.activations) {
    case ActivationType::f32: return DType::f32;
    case ActivationType::bf16: return DType::bf16;
    case ActivationType::f16: return DType::f16;
  }
  return DType::f32;
}

LossScaling loss_scaling(const PrecisionSection& p) {
  LossScaling scaling{p.loss_scale == "dynamic", 1, p.growth_factor, p.growth_interval, p.backoff_factor, p.min_scale};
  if (scaling.dynamic)
    scaling.initial = p.init_scale;
  else if (const auto fixed = number_from<double>(p.loss_scale))
    scaling.initial = *fixed;
  return scaling;
}

OptimizerOptions optimizer_options(const RunConfig& config, int64_t run_steps) {
  OptimizerOptions options = config.optimizer;
  if (options.total_steps == 0) options.total_steps = run_steps;
  return options;
}

nn::ModelSpec model_spec(const RunConfig& config, const Shape& input, int64_t classes) {
  const ModelSection& m = config.model;
  const bool mlp = m.kind == "mlp", cnn = m.kind == "cnn", resnet = m.kind == "resnet";
  nn::ModelSpec spec;
  spec.kind = m.kind;
  spec.input = input;
  spec.classes = classes;
  if (mlp || cnn) spec.hidden = m.hidden;
  if (cnn || resnet) spec.channels = m.channels;
  if (resnet) spec.blocks = m.blocks, spec.block = m.block, spec.stem = m.stem;
  if (cnn) spec.kernel = m.kernel;
  spec.activation = m.activation;
  spec.dropout = m.dropout;
  spec.batch_norm = cnn && m.batch_norm;
  spec.layer_norm = mlp && m.layer_norm;
  if (m.kind == "gpt") {
    spec.layers = m.layers;
    spec.heads = m.heads;
    spec.width = m.width;
    spec.context = m.context;
    spec.positions = m.positions;
    spec.mlp = m.mlp;
    spec.tied = m.tied;
    spec.sparse_embedding = m.sparse_embedding;
  }
  if (m.kind == "gpt" || resnet) {
    spec.recompute = m.recompute;
    spec.recompute_every = m.recompute_every;
  }
  return spec;
}

LayoutOptions layout_options(const RunConfig& config) {
  LayoutOptions options;
  options.servers = static_cast<uint32_t>(config.parallel.servers);
  options.slice_bytes = config.servers.slice_bytes;
  options.fuse_bytes = config.servers.fuse_bytes;
  return options;
}

DataOptions data_options(const RunConfig& config) {
  DataOptions options = config.data;
  options.seed = static_cast<uint64_t>(config.train.seed);
  options.context = config.model.context;
  options.vocabulary = config.model.vocabulary;
  return options;
}

DealerOptions dealer_options(const RunConfig& config, int64_t train_samples) {
  DealerOptions options;
  options.train_samples = train_samples;
  options.epochs = config.train.epochs;
  options.max_steps = config.train.max_steps;
  const int64_t steps = config.parallel.steps_per_batch();
  options.global_batch = config.train.batch_size / steps;
  options.worker_batch = worker_batches(config);
  for (int64_t& samples : options.worker_batch) samples /= steps;
  options.stages = config.parallel.stages;
  return options;
}

}  // namespace troupe::ps
