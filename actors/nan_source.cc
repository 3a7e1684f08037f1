#include <troupe/actors/nan_source.h>

#include <limits>

namespace troupe {
namespace {

class NanSource final : public GradientSource {
 public:
  NanSource(std::unique_ptr<GradientSource> source, int64_t at_step, std::string layer)
      : source_(std::move(source)), at_step_(at_step), layer_(std::move(layer)) {}

  const std::vector<LayerSpec>& layers() const override { return source_->layers(); }
  void initialize(size_t layer, uint64_t seed, std::span<float> values) override {
    source_->initialize(layer, seed, values);
  }
  void forward(const Batch& batch, std::span<const Tensor> weights, size_t first, size_t last) override {
    source_->forward(batch, weights, first, last);
  }
  StepStats backward(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready) override {
    const bool now = step_++ == at_step_;
    return source_->backward(batch, weights, [&](size_t layer, Tensor gradient) {
      const bool here = layer_.empty() ? layer == 0 : layers()[layer].name == layer_;
      if (now && here) gradient.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
      ready(layer, std::move(gradient));
    });
  }
  StepStats evaluate(std::span<const uint32_t> samples, std::span<const Tensor> weights) override {
    return source_->evaluate(samples, weights);
  }
  int64_t train_samples() const override { return source_->train_samples(); }
  int64_t test_samples() const override { return source_->test_samples(); }

 private:
  std::unique_ptr<GradientSource> source_;
  int64_t at_step_;
  std::string layer_;
  int64_t step_ = 0;
};

}  // namespace

std::unique_ptr<GradientSource> make_nan_source(std::unique_ptr<GradientSource> source, int64_t at_step,
                                                std::string layer) {
  return std::make_unique<NanSource>(std::move(source), at_step, std::move(layer));
}

}  // namespace troupe
