#include <troupe/ps/param/optimizer.h>

#include <algorithm>
#include <cmath>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/param/optimizers/families.h>

namespace troupe::ps {
namespace {

struct Family {
  const char* name;
  std::shared_ptr<const Optimizer> (*make)(const OptimizerOptions&);
};
constexpr Family kFamilies[] = {{"sgd", make_sgd},         {"adam", make_adam},       {"adamw", make_adam},
                                {"adagrad", make_adagrad}, {"rmsprop", make_rmsprop}, {"lamb", make_lamb}};

Status require(bool holds, const char* key, double value, const char* rule) {
  if (holds) return {};
  return fail(ErrorKind::invalid, cat("optimizer.", key, " = ", value, ": it must be ", rule));
}

Status check_numbers(const OptimizerOptions& o) {
  const auto fraction = [](double x) { return x >= 0 && x < 1; };
  const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
  const auto not_negative = [](double x) { return std::isfinite(x) && x >= 0; };
  TROUPE_TRY(require(not_negative(o.learning_rate), "learning_rate", o.learning_rate, "0 or more"));
  TROUPE_TRY(require(fraction(o.momentum), "momentum", o.momentum, "at least 0 and below 1"));
  TROUPE_TRY(require(fraction(o.beta1), "beta1", o.beta1, "at least 0 and below 1"));
  TROUPE_TRY(require(fraction(o.beta2), "beta2", o.beta2, "at least 0 and below 1"));
  TROUPE_TRY(require(fraction(o.alpha), "alpha", o.alpha, "at least 0 and below 1"));
  TROUPE_TRY(require(positive(o.epsilon), "epsilon", o.epsilon, "above 0"));
  TROUPE_TRY(require(not_negative(o.weight_decay), "weight_decay", o.weight_decay, "0 or more"));
  if (o.nesterov && o.momentum == 0)
    return fail(ErrorKind::invalid, "optimizer.nesterov needs a momentum: set optimizer.momentum, 0.9 for example");
  return {};
}

Status check_schedule(const OptimizerOptions& o) {
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  TROUPE_TRY(require(o.warmup_steps >= 0, "warmup_steps", number(o.warmup_steps), "0 or more"));
  if (o.schedule == "constant") return {};
  if (o.schedule == "step") {
    TROUPE_TRY(require(o.step_size > 0, "step_size", number(o.step_size), "above 0 for schedule \"step\""));
    return require(std::isfinite(o.gamma) && o.gamma > 0, "gamma", o.gamma, "above 0");
  }
  if (o.schedule == "cosine" || o.schedule == "linear") {
    TROUPE_TRY(require(o.total_steps > o.warmup_steps, "total_steps", number(o.total_steps), "above warmup_steps"));
    return require(o.min_rate >= 0 && o.min_rate <= o.learning_rate, "min_rate", o.min_rate,
                   "between 0 and learning_rate");
  }
  return fail(ErrorKind::invalid,
              cat("optimizer.schedule = \"", o.schedule, "\" is unknown; there are constant, step, cosine, linear"));
}

}  // namespace

std::vector<Segment> segments_of(const LayerSpec& layer, int64_t begin, int64_t end) {
  std::vector<Segment> segments;
  for (const ParamSpec& param : layer.params) {
    const int64_t first = std::max(param.offset, begin);
    const int64_t last = std::min(param.offset + param.shape.count(), end);
    if (first < last) segments.push_back({first - begin, last - begin, param.kind});
  }
  return segments;
}

Status Optimizer::check_rows() const {
  return fail(ErrorKind::invalid, name() + " does not say what an update of some rows of a layer is");
}

Status check_lazy(const OptimizerOptions& options, bool exact) {
  if (options.lazy_rows || (exact && options.weight_decay == 0)) return {};
  return fail(ErrorKind::invalid,
              cat("optimizer.name = \"", options.name, "\" changes rows whose gradient is zero, ",
                  exact ? "" : "by its moments", !exact && options.weight_decay > 0 ? " and " : "",
                  options.weight_decay > 0 ? "by weight decay" : "",
                  ", which updates by rows leave out: set optimizer.lazy_rows = true to have it so, or use sgd or "
                  "adagrad without momentum and weight decay"));
}

Result<std::shared_ptr<const Optimizer>> make_optimizer(const OptimizerOptions& options) {
  TROUPE_TRY(check_numbers(options));
  TROUPE_TRY(check_schedule(options));
  std::string names;
  for (const Family& family : kFamilies) {
    if (options.name == family.name) return family.make(options);
    names += (names.empty() ? "" : ", ") + std::string(family.name);
  }
  return fail(ErrorKind::invalid, cat("optimizer.name = \"", options.name, "\" is unknown; there are ", names));
}

}  // namespace troupe::ps
