#include <cmath>

#include <troupe/ps/param/optimizers/blocks.h>
#include <troupe/ps/param/optimizers/families.h>

namespace troupe::ps {
namespace {

// Kingma and Ba, "Adam", ICLR'15, as torch.optim.Adam; decoupled decay after Loshchilov and Hutter, ICLR'19,
// as torch.optim.AdamW. With t = updates + 1:
//   adam: g += decay w       adamw: w -= rate decay w
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   w -= rate / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)
class Adam final : public Optimizer {
 public:
  Adam(const OptimizerOptions& options, bool decoupled) : options_(options), decoupled_(decoupled) {}

  std::string name() const override { return decoupled_ ? "adamw" : "adam"; }
  std::vector<std::string> state_names() const override { return {"m", "v"}; }

  Status check_rows() const override { return check_lazy(options_, false); }

  void apply(const SliceUpdate& u) const override {
    const double t = static_cast<double>(u.updates + 1), full_rate = rate(options_, u);
    const auto step = static_cast<float>(full_rate / (1 - std::pow(options_.beta1, t)));
    const auto correction = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, t)));
    const auto b1 = static_cast<float>(options_.beta1), b2 = static_cast<float>(options_.beta2);
    const auto a1 = static_cast<float>(1 - options_.beta1), a2 = static_cast<float>(1 - options_.beta2);
    const auto epsilon = static_cast<float>(options_.epsilon);
    const float scale = gradient_scale(u);
    for_each_segment(u, 2, options_.weight_decay, [&](const Segment& segment, float decay) {
      const float l2 = decoupled_ ? 0 : decay;
      const auto keep = static_cast<float>(decoupled_ ? 1 - full_rate * static_cast<double>(decay) : 1);
      for_each_block(u, segment, [=, &u](int64_t at, int64_t n, const float* g) {
        const float* in = u.in.data() + at;
        float *out = u.out.data() + at, *m = u.state[0].data() + at, *v = u.state[1].data() + at;
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) {
          const float d = scale * g[i] + l2 * in[i];
          const float mean = b1 * m[i] + a1 * d;
          const float square = b2 * v[i] + a2 * d * d;
          m[i] = mean;
          v[i] = square;
          out[i] = keep * in[i] - step * mean / (std::sqrt(square) * correction + epsilon);
        }
      });
    });
  }

 private:
  OptimizerOptions options_;
  bool decoupled_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_adam(const OptimizerOptions& options) {
  return std::make_shared<Adam>(options, options.name == "adamw");
}

}  // namespace troupe::ps
