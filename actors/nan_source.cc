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
      poisoned_ = now && here;
      // Memory of a device is not ours to write: there, what is said of the gradient decides.
      if (poisoned_ && gradient.device().kind == DeviceKind::cpu)
        gradient.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
      ready(layer, std::move(gradient));
      poisoned_ = false;
    });
  }
  std::optional<GradientMeasure> measured() const override {
    std::optional<GradientMeasure> found = ForwardingSource::measured();
    if (found && poisoned_) found->finite = false;
    return found;
  }

 private:
  int64_t at_step_;
  std::string layer_;
  int64_t step_ = 0;
  bool poisoned_ = false;  ///< the gradient that is being handed over
};

}  // namespace

std::unique_ptr<GradientSource> make_nan_source(std::unique_ptr<GradientSource> source, int64_t at_step,
                                                std::string layer) {
  return std::make_unique<NanSource>(std::move(source), at_step, std::move(layer));
}

}  // namespace troupe
