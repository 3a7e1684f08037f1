#pragma once
#include <cstdint>

#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// What every optimizer step says. The gradient that it uses is gradient_scale g (an average, a clipped norm).
struct Step {
  double rate = 0;
  double gradient_scale = 1;
  double weight_decay = 0;  ///< 0 for what is not a weight
};

struct MomentumStep : Step {
  double momentum = 0;
  bool nesterov = false;
};

struct AdamStep : Step {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  int64_t updates = 0;     ///< steps that this tensor has had before
  bool decoupled = false;  ///< AdamW
};

struct AdagradStep : Step {
  double epsilon = 1e-8;
};

struct RmspropStep : Step {
  double alpha = 0.99, epsilon = 1e-8, momentum = 0;
};

/// Optimizer steps where parameters live on a device: one pass over g, w and the state. All tensors f32, of equal
/// counts; w and the state are updated in place. What each computes is written, with its source, in
/// ps/param/optimizers/<name>.cc, which is the CPU's; results agree to rounding.
struct UpdateOps {
  /// w -= rate (g + decay w).
  void (*sgd)(Stream&, const Step&, const Tensor& g, Tensor& w);
  /// buffer = momentum buffer + (g + decay w), then w follows it, or looks ahead (Nesterov).
  void (*momentum)(Stream&, const MomentumStep&, const Tensor& g, Tensor& w, Tensor& buffer);
  /// Adam, and AdamW when the step is `decoupled`.
  void (*adam)(Stream&, const AdamStep&, const Tensor& g, Tensor& w, Tensor& m, Tensor& v);
  void (*adagrad)(Stream&, const AdagradStep&, const Tensor& g, Tensor& w, Tensor& sum);
  /// `buffer` or none, as the step's momentum is above 0 or not.
  void (*rmsprop)(Stream&, const RmspropStep&, const Tensor& g, Tensor& w, Tensor& average, Tensor& buffer);
  /// One whole tensor, whose norms it needs: three passes. `decoupled` means nothing here.
  void (*lamb)(Stream&, const AdamStep&, const Tensor& g, Tensor& w, Tensor& m, Tensor& v);
};

}  // namespace troupe::ops
