#include <cmath>

#include <troupe/ps/param/optimizers/blocks.h>
#include <troupe/ps/param/optimizers/families.h>

namespace troupe::ps {
namespace {

// Duchi et al., JMLR 2011, as torch.optim.Adagrad:
//   g += decay w;  s += g^2;  w -= rate g / (sqrt(s) + epsilon)
class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(const OptimizerOptions& options) : options_(options) {}

  std::string name() const override { return "adagrad"; }
  std::vector<std::string> state_names() const override { return {"sum"}; }

  Status check_rows() const override { return check_lazy(options_, true); }

  void apply(const SliceUpdate& u) const override {
    const auto step = static_cast<float>(rate(options_, u)), epsilon = static_cast<float>(options_.epsilon);
    const float scale = gradient_scale(u);
    for_each_segment(u, 1, options_.weight_decay, [&](const Segment& segment, float decay) {
      for_each_block(u, segment, [=, &u](int64_t at, int64_t n, const float* g) {
        const float* in = u.in.data() + at;
        float *out = u.out.data() + at, *sum = u.state[0].data() + at;
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) {
          const float d = scale * g[i] + decay * in[i];
          const float s = sum[i] + d * d;
          sum[i] = s;
          out[i] = in[i] - step * d / (std::sqrt(s) + epsilon);
        }
      });
    });
  }

 private:
  OptimizerOptions options_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_adagrad(const OptimizerOptions& options) {
  return std::make_shared<Adagrad>(options);
}

}  // namespace troupe::ps
