#include <cmath>

#include <troupe/ps/param/optimizers/blocks.h>
#include <troupe/ps/param/optimizers/families.h>

namespace troupe::ps {
namespace {

// You et al., "Large batch optimization for deep learning", ICLR'20 (arXiv 1904.00962), algorithm 2 with the
// identity for phi. With t = updates + 1, for each tensor:
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon) + decay w
//   w -= rate |w| / |u| u            (the ratio is 1 where either norm is 0)
// Two passes: the norm of u is known only after the last element; u is worked out again rather than kept.
class Lamb final : public Optimizer {
 public:
  explicit Lamb(const OptimizerOptions& options) : options_(options) {}

  std::string name() const override { return "lamb"; }
  std::vector<std::string> state_names() const override { return {"m", "v"}; }
  bool needs_whole_tensors() const override { return true; }
  Status check_rows() const override {
    return fail(ErrorKind::invalid,
                "lamb weighs an update by the norm of the whole tensor, so that it cannot update some rows of a layer: "
                "use another optimizer, or a dense layer");
  }

  void apply(const SliceUpdate& u) const override {
    const double t = static_cast<double>(u.updates + 1);
    const auto correction1 = static_cast<float>(1 / (1 - std::pow(options_.beta1, t)));
    const auto correction2 = static_cast<float>(1 / (1 - std::pow(options_.beta2, t)));
    const auto b1 = static_cast<float>(options_.beta1), b2 = static_cast<float>(options_.beta2);
    const auto a1 = static_cast<float>(1 - options_.beta1), a2 = static_cast<float>(1 - options_.beta2);
    const auto epsilon = static_cast<float>(options_.epsilon);
    const float scale = gradient_scale(u);
    for_each_segment(u, 2, options_.weight_decay, [&](const Segment& segment, float decay) {
      const float* w = u.in.data();
      float *out = u.out.data(), *m = u.state[0].data(), *v = u.state[1].data();
      const auto direction = [=](float mean, float square, float x) {
        return mean * correction1 / (std::sqrt(square * correction2) + epsilon) + decay * x;
      };
      double weight_squares = 0, direction_squares = 0;
      for_each_block(u, segment, [=, &weight_squares, &direction_squares](int64_t at, int64_t n, const float* g) {
        alignas(64) float r[kBlockElements];
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) {
          const float d = scale * g[i];
          const float mean = b1 * m[at + i] + a1 * d;
          const float square = b2 * v[at + i] + a2 * d * d;
          m[at + i] = mean;
          v[at + i] = square;
          r[i] = direction(mean, square, w[at + i]);
        }
        weight_squares += sum_of_squares(w + at, n);
        direction_squares += sum_of_squares(r, n);
      });
      const bool defined = weight_squares > 0 && direction_squares > 0;
      const auto step =
          static_cast<float>(rate(options_, u) * (defined ? std::sqrt(weight_squares / direction_squares) : 1));
#pragma omp simd
      for (int64_t i = segment.begin; i < segment.end; ++i) out[i] = w[i] - step * direction(m[i], v[i], w[i]);
    });
  }

 private:
  OptimizerOptions options_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_lamb(const OptimizerOptions& options) { return std::make_shared<Lamb>(options); }

}  // namespace troupe::ps
