#include <cmath>

#include <troupe/ps/param/optimizers/blocks.h>
#include <troupe/ps/param/optimizers/families.h>

namespace troupe::ps {
namespace {

// Tieleman and Hinton, 2012, as torch.optim.RMSprop:
//   g += decay w;  s = alpha s + (1 - alpha) g^2;  d = g / (sqrt(s) + epsilon)
//   w -= rate d,  or with momentum: b = momentum b + d;  w -= rate b
class Rmsprop final : public Optimizer {
 public:
  explicit Rmsprop(const OptimizerOptions& options) : options_(options) {}

  std::string name() const override { return "rmsprop"; }
  std::vector<std::string> state_names() const override {
    if (options_.momentum > 0) return {"square_average", "momentum"};
    return {"square_average"};
  }

  Status check_rows() const override { return check_lazy(options_, false); }

  void apply(const SliceUpdate& u) const override {
    const bool has_momentum = options_.momentum > 0;
    for_each_segment(u, has_momentum ? 2 : 1, options_.weight_decay, [&](const Segment& segment, float decay) {
      has_momentum ? run<true>(u, segment, decay) : run<false>(u, segment, decay);
    });
  }

 private:
  template <bool kMomentum>
  void run(const SliceUpdate& u, const Segment& segment, float decay) const {
    const auto step = static_cast<float>(rate(options_, u)), epsilon = static_cast<float>(options_.epsilon);
    const auto alpha = static_cast<float>(options_.alpha), rest = static_cast<float>(1 - options_.alpha);
    const auto momentum = static_cast<float>(options_.momentum);
    const float scale = gradient_scale(u);
    for_each_block(u, segment, [=, &u](int64_t at, int64_t n, const float* g) {
      const float* in = u.in.data() + at;
      float *out = u.out.data() + at, *average = u.state[0].data() + at;
      float* buffer = kMomentum ? u.state[1].data() + at : nullptr;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const float d = scale * g[i] + decay * in[i];
        const float s = alpha * average[i] + rest * d * d;
        average[i] = s;
        float direction = d / (std::sqrt(s) + epsilon);
        if constexpr (kMomentum) buffer[i] = direction = momentum * buffer[i] + direction;
        out[i] = in[i] - step * direction;
      }
    });
  }

  OptimizerOptions options_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_rmsprop(const OptimizerOptions& options) {
  return std::make_shared<Rmsprop>(options);
}

}  // namespace troupe::ps
