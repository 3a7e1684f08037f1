#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/cluster_parts.h>
#include <troupe/actors/device_seats.h>
#include <troupe/kernels/nn/model.h>
#include <troupe/kernels/nn/model_source.h>
#include <troupe/ps/checkpoint/checkpoint.h>
#include <troupe/ps/config/load.h>
#include <troupe/ps/data/load_dataset.h>

namespace troupe {

/// What a configuration describes, made: data sets, model, optimizer. Every process of a run makes the same from the
/// same config. Immutable; thread-safe.
class Blueprint : public std::enable_shared_from_this<Blueprint> {
 public:
  /// Reads the data, builds the model and finds the devices. Whatever is wrong with the config, the data or both
  /// together is an error. `spread`: the run lives in several processes, and this one may have any of the workers.
  static Result<std::shared_ptr<const Blueprint>> make(const ps::LoadedConfig& config, bool spread = false);

  /// Parts of a cluster that trains this; what they hold keeps the blueprint alive.
  ClusterParts parts() const;
  /// Lets a run go on from a checkpoint: its parameters and where it stood.
  static Status resume(ClusterParts& parts, std::shared_ptr<const ps::Checkpoint> checkpoint);

  /// Lets servers keep what `[checkpoint] durability` promises: logs in its log_folder, or replicas. `spread`: over
  /// several processes, where servers can move whatever is promised.
  static void keep_promises(ClusterParts& parts, const ps::RunConfig& config, bool spread);

  const ps::RunConfig& config() const { return config_; }
  const ps::Sources& sources() const { return sources_; }
  /// What workers compute on and servers live on, for the log; empty where that is no question.
  std::string device_note() const;
  /// What workers said of their devices since the last call, a sentence each.
  std::vector<std::string> take_worker_notes() const;
  /// With the total of steps that its schedule ends with.
  const ps::OptimizerOptions& optimizer() const { return optimizer_options_; }

 private:
  Blueprint() = default;
  Status load();
  Status load_weights();
  Status choose();
  Status choose_stages();
  Result<std::vector<ps::LayerCost>> layer_costs() const;
  std::unique_ptr<StageSource> stage_source(ps::WorkerId worker) const;
  std::unique_ptr<GradientSource> source(ps::WorkerId worker) const;
  nn::LaunchOptions launches(ps::WorkerId worker) const;

  ps::RunConfig config_;
  ps::Sources sources_;
  ps::DataSets data_;
  std::shared_ptr<const nn::Model> model_;
  std::vector<Tensor> weights_;  ///< to begin from, by layer; empty: random
  std::shared_ptr<DeviceSeats> seats_;
  mutable std::mutex mutex_;
  mutable std::vector<std::string> worker_notes_;  ///< with `mutex_`
  std::shared_ptr<Backend> server_backend_;  ///< null: servers keep parameters in host memory
  ps::OptimizerOptions optimizer_options_;
  std::shared_ptr<const ps::Optimizer> optimizer_;
  ps::CoordinatorOptions coordinator_;
  ps::StageOptions stage_;
};

}  // namespace troupe
