#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/nn/gradient_source.h>

namespace troupe::ps {

/// `[optimizer]`, and the schedule of its learning rate.
struct OptimizerOptions {
  std::string name = "sgd";  ///< sgd | adam | adamw | adagrad | rmsprop | lamb
  double learning_rate = 0.05;
  double momentum = 0;  ///< sgd, rmsprop
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double alpha = 0.99;                ///< rmsprop's smoothing
  double weight_decay = 0;            ///< on ParamKind::weight only; decoupled for adamw and lamb, L2 for the others
  std::string schedule = "constant";  ///< constant | step | cosine | linear, the last two after the warm-up
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;  ///< where cosine and linear end
  int64_t step_size = 0;    ///< step: every so many steps ...
  double gamma = 0.1;       ///< ... the rate is multiplied by this
  double min_rate = 0;      ///< cosine and linear end here
  bool lazy_rows = false;   ///< layers by rows: momentum and decay of a row only in steps that touch it (ps/param/rows.h)
};

/// Learning rate at global step `step` (from 0): warm-up is linear from rate/warmup to rate.
double learning_rate(const OptimizerOptions& options, int64_t step);

/// The part of one tensor that lies in a slice.
struct Segment {
  int64_t begin = 0, end = 0;  ///< elements, relative to the slice
  ParamKind kind = ParamKind::weight;
};

/// Of the tensors of `layer` that reach into its elements [begin, end), ascending.
std::vector<Segment> segments_of(const LayerSpec& layer, int64_t begin, int64_t end);

/// One optimizer step on one slice. The gradient is sum over `gradients` (added in this order, so that the
/// result does not depend on who came first) times `gradient_scale`; nothing is materialised in between.
/// `out` may be `in`; otherwise all of it is written. State is updated in place.
struct SliceUpdate {
  std::span<const float> in;
  std::span<float> out;
  std::span<const std::span<const float>> gradients;
  double gradient_scale = 1;
  double clip_scale = 1;  ///< global-norm clipping: multiplies the gradient of all but statistics
  double rate_scale = 1;  ///< multiplies the learning rate (scale = "samples" | "staleness")
  std::span<const std::span<float>> state;
  std::span<const Segment> segments;
  int64_t schedule_step = 0;
  int64_t updates = 0;  ///< optimizer steps this slice has had before (bias correction)
};

/// What a server does with a gradient. An embedder may bring another one. Thread-safe: it holds no state.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::string name() const = 0;
  /// Names of the state vectors, each as long as the parameters and zero at first ("momentum"; "m", "v").
  virtual std::vector<std::string> state_names() const = 0;
  /// True where an update needs norms over whole tensors, so that layers must not be cut.
  virtual bool needs_whole_tensors() const { return false; }
  /// Whether it may update some rows of a layer and leave the others as they are (ps/param/rows.h); else why not.
  virtual Status check_rows() const;
  /// The segments cover the slice. Those of kind statistic take out = in - rate_scale x gradient, whatever
  /// the optimizer.
  virtual void apply(const SliceUpdate& update) const = 0;
};

/// Unknown names and senseless numbers (a negative rate, beta >= 1) are errors.
Result<std::shared_ptr<const Optimizer>> make_optimizer(const OptimizerOptions& options);

}  // namespace troupe::ps
