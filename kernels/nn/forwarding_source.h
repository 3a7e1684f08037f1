#pragma once
#include <memory>

#include <troupe/kernels/nn/gradient_measure.h>
#include <troupe/kernels/nn/gradient_source.h>

namespace troupe {

/// Passes every call on to another source: the base of one that changes a few of them. Whoever changes gradients also
/// says what they are then, or nothing (`measured`).
class ForwardingSource : public GradientSource, public MeasuringSource {
 public:
  explicit ForwardingSource(std::unique_ptr<GradientSource> source) : source_(std::move(source)) {}

  const std::vector<LayerSpec>& layers() const override { return source_->layers(); }
  void initialize(size_t layer, uint64_t seed, std::span<float> values) override {
    source_->initialize(layer, seed, values);
  }
  void prepare(const Batch& batch) override { source_->prepare(batch); }
  Tensor rows(const Batch& batch, size_t layer) override { return source_->rows(batch, layer); }
  void forward(const Batch& batch, std::span<const Tensor> weights, size_t first, size_t last) override {
    source_->forward(batch, weights, first, last);
  }
  std::vector<size_t> gradient_order() const override { return source_->gradient_order(); }
  void leave_on_device(std::span<const size_t> layers) override { source_->leave_on_device(layers); }
  void measure_gradients(bool norm) override {
    if (auto* measuring = dynamic_cast<MeasuringSource*>(source_.get())) measuring->measure_gradients(norm);
  }
  std::optional<GradientMeasure> measured() const override {
    const auto* measuring = dynamic_cast<const MeasuringSource*>(source_.get());
    return measuring ? measuring->measured() : std::nullopt;
  }
  StepStats backward(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready) override {
    return source_->backward(batch, weights, ready);
  }
  StepStats evaluate(std::span<const uint32_t> samples, std::span<const Tensor> weights) override {
    return source_->evaluate(samples, weights);
  }
  int64_t train_samples() const override { return source_->train_samples(); }
  int64_t test_samples() const override { return source_->test_samples(); }

 private:
  std::unique_ptr<GradientSource> source_;
};

}  // namespace troupe
