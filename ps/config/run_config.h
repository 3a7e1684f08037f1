#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/kernels/backend/matmul_precision.h>
#include <troupe/kernels/nn/model_spec.h>
#include <troupe/ps/control/roster.h>
#include <troupe/ps/data/dealer.h>
#include <troupe/ps/data/load_dataset.h>
#include <troupe/ps/param/optimizer.h>
#include <troupe/ps/param/policy.h>
#include <troupe/ps/param/shard.h>

/// What one run is told, as plain values: one struct a table of the TOML file, one member a setting. The
/// initialisers here are the defaults. What a setting means, its unit and when to change it stands once, in
/// settings.cc (`troupe config --explain`).
namespace troupe::ps {

struct RunSection {
  std::string name = "run";
};

struct ModelSection {
  std::string kind = "mlp";
  std::vector<int64_t> hidden = {512, 256};
  std::vector<int64_t> channels;
  std::vector<int64_t> blocks;
  int64_t kernel = 3;
  std::string activation = "relu";
  double dropout = 0;
  bool batch_norm = false;
  bool layer_norm = false;
};

/// What data there are is said by DataOptions, except `seed`, which is train.seed's.
struct DataSection : DataOptions {
  bool shuffle = true;
};

enum class NonFinite : uint8_t { stop, skip };

struct TrainSection {
  int64_t epochs = 5;
  int64_t batch_size = 128;  ///< of all workers together
  int64_t seed = 1;
  int64_t max_steps = 0;
  double clip_norm = 0;
  NonFinite on_nonfinite = NonFinite::stop;
  int64_t evaluate_every_epochs = 1;
};

/// Where workers compute. `automatic`: on GPUs where there is one for each, else on the CPU.
enum class DeviceChoice : uint8_t { cpu, cuda, automatic };

struct ParallelSection {
  int64_t workers = 1;
  int64_t servers = 1;
  int64_t threads_per_worker = 1;
  std::vector<int64_t> worker_batch;  ///< empty: equal shares; see worker_batches()
  DeviceChoice device = DeviceChoice::cpu;
};

struct PrecisionSection {
  MatmulPrecision matmul = MatmulPrecision::f32;
};

struct ServersSection {
  int64_t slice_bytes = 4 << 20;
  int64_t fuse_bytes = 64 << 10;
  ImmediateScale immediate_scale = ImmediateScale::samples;
};

/// What an acknowledged push survives (ps/param/shard_store.h).
enum class Durability : uint8_t { checkpoint, logged, replicated };
/// UpdateLogOptions::Sync, in its order.
enum class LogSync : uint8_t { each, interval, never };

struct CheckpointSection {
  int64_t every_steps = 0;
  int64_t keep = 3;
  bool at_end = true;
  Durability durability = Durability::checkpoint;
  std::string log_folder;
  LogSync log_sync = LogSync::interval;
};

struct NetworkSection {
  int64_t lease_ms = 3000;
  int64_t start_timeout_s = 60;
  bool shared_memory = true;
  int64_t max_message_bytes = int64_t{1} << 30;
  int64_t queue_bytes = 256 << 20;
};

struct ElasticSection {
  int64_t max_restarts = 3;
  OnLoss on_loss = OnLoss::restart;
  int64_t replace_ms = 5000;
  int64_t min_workers = 1;
};

struct MetricsSection {
  int64_t every_steps = 50;
  bool csv = true;
  bool jsonl = true;
};

struct DebugSection {
  bool record = false;
  int64_t slow_worker = -1;  ///< index; -1: none
  double slow_factor = 1;
  double slow_ms = 0;
  int64_t nan_at_step = -1;  ///< -1: never
  int64_t nan_worker = 0;
  std::string nan_layer;  ///< empty: the first layer
};

struct RunConfig {
  RunSection run;
  ModelSection model;
  DataSection data;
  TrainSection train;
  ParallelSection parallel;
  PrecisionSection precision;
  OptimizerOptions optimizer;
  std::vector<UpdateRule> update = {UpdateRule{}};  ///< `[[update]]`, in order; never empty
  ServersSection servers;
  CheckpointSection checkpoint;
  NetworkSection network;
  ElasticSection elastic;
  MetricsSection metrics;
  DebugSection debug;
};

/// Samples of one step by worker, in all train.batch_size: `parallel.worker_batch`, or equal shares of which
/// the first ones take one more where it does not divide.
std::vector<int64_t> worker_batches(const RunConfig& config);

/// `[optimizer]` with `total_steps` filled in from the run (Dealer::total_schedule_steps) where it is 0.
OptimizerOptions optimizer_options(const RunConfig& config, int64_t run_steps);

/// `[model]` for samples of shape `input` with `classes` labels, without the settings that have no meaning for its
/// kind: some have defaults, and check_config has warned of the others.
nn::ModelSpec model_spec(const RunConfig& config, const Shape& input, int64_t classes);

/// `whole_layers` is for the optimizer to say.
LayoutOptions layout_options(const RunConfig& config);
DataOptions data_options(const RunConfig& config);
DealerOptions dealer_options(const RunConfig& config, int64_t train_samples);

}  // namespace troupe::ps
