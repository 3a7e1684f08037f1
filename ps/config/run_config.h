#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/kernels/backend/matmul_precision.h>
#include <troupe/kernels/nn/model_spec.h>
#include <troupe/ps/control/roster.h>
#include <troupe/ps/data/dealer.h>
#include <troupe/ps/data/load_dataset.h>
#include <troupe/ps/param/loss_scale.h>
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
  std::string block = "basic";
  std::string stem = "small";
  int64_t kernel = 3;
  std::string activation = "relu";
  double dropout = 0;
  bool batch_norm = false;
  bool layer_norm = false;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;
  int64_t context = 128;
  int64_t vocabulary = 0;  ///< 0: what the data say
  std::string positions = "learned";
  std::string mlp = "gelu";
  bool tied = true;
  bool sparse_embedding = false;
  std::string recompute = "none";
  int64_t recompute_every = 2;
  std::string weights;  ///< a safetensors file in GPT-2's layout; empty: random
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
  DeviceChoice device = DeviceChoice::cpu;
  bool launch_graphs = false;                      ///< of workers on GPUs
  DeviceChoice server_device = DeviceChoice::cpu;  ///< where servers keep parameters; never automatic
  std::vector<int64_t> worker_batch;  ///< by replica; empty: equal shares; see worker_batches()
  int64_t stages = 1;                 ///< workers that make up a replica of the model
  std::string schedule = "1f1b";
  std::string schedule_file;
  int64_t micro_batches = 4;          ///< of a replica's batch
  int64_t chunks = 1;                 ///< parts of the model a stage
  std::vector<int64_t> cuts;          ///< layers a chunk; empty: by what they cost
  std::string profile;                ///< CSV of what they cost; empty: by estimated work
  bool strict_schedule = false;
  int64_t stall_s = 60;
  int64_t bucket_bytes = 1 << 20;
  int64_t reduce_threads = -1;  ///< -1: as many as cores are left; see reduce_threads()

  int64_t replicas() const { return workers / stages; }
  /// Stages update their weights without a flush of the pipeline in between.
  bool asynchronous() const {
    return stages > 1 && schedule_file.empty() && (schedule == "pipedream" || schedule == "pipedream-2bw");
  }
  /// Updates, and so steps of the run, that a batch is good for: PipeDream makes one of every micro-batch.
  int64_t steps_per_batch() const { return asynchronous() && schedule == "pipedream" ? micro_batches : 1; }
};

/// What activations and their gradients are held in between layers.
enum class ActivationType : uint8_t { f32, bf16, f16 };

struct PrecisionSection {
  MatmulPrecision matmul = MatmulPrecision::f32;
  ActivationType activations = ActivationType::f32;
  std::string loss_scale = "none";  ///< none, dynamic, or a number
  double init_scale = 65536;
  double growth_factor = 2;
  int64_t growth_interval = 2000;
  double backoff_factor = 0.5;
  double min_scale = 1;
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
  bool trace = false;
  int64_t trace_first_step = 0;
  int64_t trace_last_step = 1000;
  std::string trace_folder;
  int64_t sample_tokens = 0;
  std::string listen;  ///< empty: nowhere
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

/// Samples of one batch by worker, in all train.batch_size: `parallel.worker_batch`, or equal shares of which
/// the first ones take one more where it does not divide.
std::vector<int64_t> worker_batches(const RunConfig& config);

/// Threads of a process that reduce while its workers compute: `parallel.reduce_threads`, or one a worker as far as
/// there are more `cores` than the workers compute on.
int64_t reduce_threads(const RunConfig& config, int64_t cores);

/// `precision.activations` as tensors have it, and what `precision.loss_scale` and its companions say.
DType storage_type(const PrecisionSection& precision);
LossScaling loss_scaling(const PrecisionSection& precision);

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
