#pragma once
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include <troupe/kernels/nn/dataset.h>
#include <troupe/kernels/nn/loss.h>
#include <troupe/kernels/nn/model_part.h>
#include <troupe/kernels/nn/stage_source.h>

namespace troupe::nn {

/// Parts of a Troupe model on a data set of labelled samples.
class ModelStageSource final : public StageSource {
 public:
  /// `parts` ascend; model and data sets may be shared with other sources. `threads` is how many a kernel may use,
  /// `storage` what activations are held in, and handed on (Pass::storage).
  ModelStageSource(std::shared_ptr<const Model> model, std::vector<ModelPart> parts,
                   std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test, int threads = 1,
                   DType storage = DType::f32, const ops::Ops& ops = ops::cpu_ops());

  const std::vector<LayerSpec>& layers() const override { return model_->layers(); }
  Tensor forward(const MicroBatch&, std::span<const Tensor> weights, Tensor x) override;
  Tensor backward_input(const MicroBatch&, std::span<const Tensor> weights, Tensor doutput) override;
  void backward_weight(const MicroBatch&, std::span<const Tensor> weights) override;
  Tensor take_gradient(size_t layer) override;
  StepStats take_stats() override { return stats_of(std::exchange(stats_, {})); }
  void reset() override;

  /// Micro-batches that hold activations now, all parts together: for tests of what a schedule keeps.
  size_t under_way() const { return running_.size(); }

 private:
  struct Running {
    ModelContext context;
    Tensor dlogits;  ///< of the model's last part
  };
  using Key = std::tuple<uint32_t, int64_t, uint32_t>;  ///< part, step, micro-batch
  static Key key(const MicroBatch& micro) { return {micro.part, micro.step, micro.index}; }

  Pass pass(const MicroBatch& micro) {
    return {stream_, ops_, micro.training, micro.seed, micro.first_sample, storage_, micro.loss_scale};
  }
  Running& running(const MicroBatch& micro);

  std::shared_ptr<const Model> model_;
  std::vector<ModelPart> parts_;
  std::shared_ptr<const Dataset> train_, test_;
  DType storage_;
  const ops::Ops& ops_;
  Stream stream_;
  std::map<Key, Running> running_;
  std::vector<Tensor> gradients_;  ///< by layer, times...
  double loss_scale_ = 1;          ///< ...this
  LossSums stats_;
};

}  // namespace troupe::nn
