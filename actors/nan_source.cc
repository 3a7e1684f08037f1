#include <troupe/actors/nan_source.h>

#include <limits>

#include <troupe/kernels/nn/forwarding_source.h>

namespace troupe {
namespace {

class NanSource final : public ForwardingSource {
 public:
  NanSource(std::unique_ptr<GradientSource> source, int64_t at_step, std::string layer)
      : ForwardingSource(std::move(source)), at_step_(at_step), layer_(std::move(layer)) {}

  StepStats backward(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready) override {
    const bool now = step_++ == at_step_;
    return ForwardingSource::backward(batch, weights, [&](size_t layer, Tensor gradient) {
      const bool here = layer_.empty() ? layer == 0 : layers()[layer].name == layer_;
      if (now && here) gradient.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
      ready(layer, std::move(gradient));
    });
  }

 private:
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
