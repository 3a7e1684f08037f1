#pragma once
#include <memory>

#include <array>
#include <functional>
#include <optional>
#include <string>

#include <troupe/kernels/nn/captured_step.h>
#include <troupe/kernels/nn/courier.h>
#include <troupe/kernels/nn/dataset.h>
#include <troupe/kernels/nn/gradient_source.h>
#include <troupe/kernels/nn/graph_choice.h>
#include <troupe/kernels/nn/model.h>

namespace troupe::nn {

/// How a source on a device submits its steps.
struct LaunchOptions {
  /// Steps that repeat are captured and replayed (graph_choice.h, captured_step.h). The forward pass then begins when
  /// the weights of all layers are there. Not possible for models that draw random numbers, which is said.
  bool graphs = false;
  std::function<void(const std::string&)> say = [](const std::string&) {};  ///< a sentence for the log, now and then
};

/// Gradients of a Troupe model on a data set of labelled samples: what a worker runs unless the caller brings
/// something else. It keeps memory and compiled kernels from step to step, nothing that changes results.
///
/// On a device that is not the CPU, calls submit and go on; `backward` and `evaluate` end by waiting for it. Layers
/// whose weights come on the device have their gradients there, and those that come in host memory as everywhere.
class ModelSource final : public GradientSource {
 public:
  /// The model's input must fit the samples, its output the classes; `threads` is how many a kernel may use, `storage`
  /// what activations are held in (Pass::storage). Model and data sets may be shared with other sources.
  ModelSource(std::shared_ptr<const Model> model, std::shared_ptr<const Dataset> train,
              std::shared_ptr<const Dataset> test, int threads = 1, DType storage = DType::f32);

  /// The same on a device of `backend`. Without memory for its streams: `exhausted`.
  static Result<std::unique_ptr<ModelSource>> make(std::shared_ptr<const Model> model,
                                                   std::shared_ptr<const Dataset> train,
                                                   std::shared_ptr<const Dataset> test,
                                                   std::shared_ptr<Backend> backend, const StreamOptions& options,
                                                   DType storage = DType::f32, LaunchOptions launches = {});

  const std::vector<LayerSpec>& layers() const override { return model_->layers(); }
  void initialize(size_t layer, uint64_t seed, std::span<float> values) override {
    model_->initialize(layer, seed, values);
  }
  void prepare(const Batch& batch) override;
  Tensor rows(const Batch& batch, size_t layer) override;
  void forward(const Batch& batch, std::span<const Tensor> weights, size_t first, size_t last) override;
  std::vector<size_t> gradient_order() const override { return model_->gradient_order(); }
  void leave_on_device(std::span<const size_t> layers) override { courier_.leave_on_device(layers); }
  StepStats backward(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready) override;
  StepStats evaluate(std::span<const uint32_t> test_samples, std::span<const Tensor> weights) override;
  int64_t train_samples() const override { return train_->size(); }
  int64_t test_samples() const override { return test_->size(); }

  /// What the compute stream was given so far.
  LaunchCounts launches() const { return backend_->launches(*stream_); }
  const GraphChoice& graphs() const { return graphs_; }

 private:
  ModelSource(std::shared_ptr<const Model> model, std::shared_ptr<const Dataset> train,
              std::shared_ptr<const Dataset> test, std::shared_ptr<Backend> backend, std::unique_ptr<Stream> compute,
              std::unique_ptr<Stream> copies, DType storage, LaunchOptions launches);

  /// Reads the samples and begins a pass over them.
  void begin(const Dataset& data, std::span<const uint32_t> samples);
  /// What the pass reads of a layer by rows: all of it, or the rows that its samples name.
  void begin_by_rows(std::span<const Tensor> weights);
  const Tensor& named_rows();
  Pass pass(bool training, uint64_t seed, double loss_scale = 1) const {
    return {*stream_, backend_->ops(), training, seed, 0, storage_, loss_scale};
  }
  bool uses_graphs() const { return launch_.graphs && graphs_.why_not().empty(); }
  /// A whole step, submitted kernel by kernel, but for the first `given` gradients, which were handed out before.
  StepStats run_step(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready, size_t given = 0);
  /// The same as a graph chooses; nothing where it is to be run. `weights` are on the device.
  std::optional<StepStats> step_by_graphs(const Batch& batch, std::span<const Tensor> weights,
                                          const GradientReady& ready);
  StepStats capture_step(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready, size_t slot);
  std::optional<StepStats> replay_step(const GradientReady& ready, size_t slot);
  /// A captured gradient, which the next step writes again.
  void give_captured(size_t layer, const Tensor& gradient, const GradientReady& ready);
  GraphChoice::Step step_of(const Batch& batch, std::span<const Tensor> weights) const;
  void report_launches(const LaunchCounts& before, size_t samples);

  bool is_same(const Batch& batch) const;
  /// A bug when `batch` is not the one whose forward pass has begun.
  void check_same(const Batch& batch) const;

  std::shared_ptr<const Model> model_;
  std::shared_ptr<const Dataset> train_, test_;
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  DType storage_;
  Courier courier_;
  ModelContext context_;
  Tensor batch_, labels_;  ///< on the device
  LaunchOptions launch_;
  GraphChoice graphs_;
  std::array<std::unique_ptr<CapturedStep>, GraphChoice::kMostSteps> captured_;
  int64_t steps_ = 0;      ///< run kernel by kernel
  bool waits_ = false;     ///< the forward pass waits for the weights of all layers
  Tensor inputs_;        ///< in host memory, of a model with a layer by rows
  Tensor rows_;          ///< that they name, once somebody has asked
  bool prepared_ = false;  ///< the samples below are read, and no layer has run
  // Of the step whose forward pass has begun and whose backward pass has not ended.
  bool begun_ = false;
  std::vector<uint32_t> samples_;
  uint64_t seed_ = 0;
};

}  // namespace troupe::nn
