#include <troupe/ps/param/optimizers/blocks.h>
#include <troupe/ps/param/optimizers/families.h>

namespace troupe::ps {
namespace {

// g += decay w;  b = momentum b + g;  w -= rate (nesterov ? g + momentum b : b)      (torch.optim.SGD)
class Sgd final : public Optimizer {
 public:
  explicit Sgd(const OptimizerOptions& options) : options_(options) {}

  std::string name() const override { return "sgd"; }
  std::vector<std::string> state_names() const override {
    return options_.momentum > 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
  }

  Status check_rows() const override { return check_lazy(options_, options_.momentum == 0); }

  void apply(const SliceUpdate& u) const override {
    const bool has_momentum = options_.momentum > 0;
    for_each_segment(u, has_momentum ? 1 : 0, options_.weight_decay, [&](const Segment& segment, float decay) {
      has_momentum ? with_momentum(u, segment, decay) : plain(u, segment, decay);
    });
  }

 private:
  void plain(const SliceUpdate& u, const Segment& segment, float decay) const {
    const float scale = gradient_scale(u), step = static_cast<float>(rate(options_, u));
    for_each_block(u, segment, [=, &u](int64_t at, int64_t n, const float* g) {
      const float* in = u.in.data() + at;
      float* out = u.out.data() + at;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = in[i] - step * (scale * g[i] + decay * in[i]);
    });
  }

  void with_momentum(const SliceUpdate& u, const Segment& segment, float decay) const {
    const float scale = gradient_scale(u), step = static_cast<float>(rate(options_, u));
    const auto momentum = static_cast<float>(options_.momentum);
    // The direction is ahead x gradient + behind x buffer: (0, 1), or Nesterov's (1, momentum).
    const float ahead = options_.nesterov ? 1 : 0, behind = options_.nesterov ? momentum : 1;
    for_each_block(u, segment, [=, &u](int64_t at, int64_t n, const float* g) {
      const float* in = u.in.data() + at;
      float* out = u.out.data() + at;
      float* buffer = u.state[0].data() + at;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const float d = scale * g[i] + decay * in[i];
        const float b = momentum * buffer[i] + d;
        buffer[i] = b;
        out[i] = in[i] - step * (ahead * d + behind * b);
      }
    });
  }

  OptimizerOptions options_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_sgd(const OptimizerOptions& options) { return std::make_shared<Sgd>(options); }

}  // namespace troupe::ps
