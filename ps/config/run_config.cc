#include <troupe/ps/config/run_config.h>

namespace troupe::ps {

std::vector<int64_t> worker_batches(const RunConfig& config) {
  if (!config.parallel.worker_batch.empty()) return config.parallel.worker_batch;
  const int64_t workers = config.parallel.workers, batch = config.train.batch_size;
  std::vector<int64_t> shares(static_cast<size_t>(workers), batch / workers);
  for (int64_t i = 0; i < batch % workers; ++i) ++shares[static_cast<size_t>(i)];
  return shares;
}

OptimizerOptions optimizer_options(const RunConfig& config, int64_t run_steps) {
  OptimizerOptions options = config.optimizer;
  if (options.total_steps == 0) options.total_steps = run_steps;
  return options;
}

nn::ModelSpec model_spec(const RunConfig& config, const Shape& input, int64_t classes) {
  const ModelSection& m = config.model;
  nn::ModelSpec spec;
  spec.kind = m.kind;
  spec.input = input;
  spec.classes = classes;
  spec.hidden = m.hidden;
  spec.channels = m.channels;
  spec.blocks = m.blocks;
  spec.kernel = m.kernel;
  spec.activation = m.activation;
  spec.dropout = m.dropout;
  spec.batch_norm = m.batch_norm;
  spec.layer_norm = m.layer_norm;
  return spec;
}

LayoutOptions layout_options(const RunConfig& config) {
  LayoutOptions options;
  options.servers = static_cast<uint32_t>(config.parallel.servers);
  options.slice_bytes = config.servers.slice_bytes;
  options.fuse_bytes = config.servers.fuse_bytes;
  options.whole_layers = config.optimizer.name == "lamb";
  return options;
}

}  // namespace troupe::ps
