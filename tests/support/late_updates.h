#pragma once
#include <tests/support/late_device.h>
#include <tests/support/whole_update.h>
#include <troupe/ps/param/optimizer.h>

/// Optimizer steps of a late device: the servers' own, on what a kernel is given.
namespace troupe::test {

inline ps::OptimizerOptions options_of(const char* name, const ops::Step& step) {
  ps::OptimizerOptions options;
  options.name = name;
  options.learning_rate = step.rate;
  options.weight_decay = step.weight_decay;
  return options;
}

inline ps::OptimizerOptions options_of(const char* name, const ops::AdamStep& step) {
  ps::OptimizerOptions options = options_of(name, static_cast<const ops::Step&>(step));
  options.beta1 = step.beta1;
  options.beta2 = step.beta2;
  options.epsilon = step.epsilon;
  return options;
}

inline void update_on_cpu(const ps::OptimizerOptions& options, const ops::Step& step, int64_t updates, const Tensor& g,
                          Tensor& w, std::initializer_list<Tensor*> states) {
  apply_whole(*ps::make_optimizer(options).value(), step.gradient_scale, updates, g, w,
              {states.begin(), states.size()});
}

inline const ops::UpdateOps& cpu_update_ops() {
  using namespace ops;
  static const UpdateOps all{
      [](Stream&, const Step& s, const Tensor& g, Tensor& w) { update_on_cpu(options_of("sgd", s), s, 0, g, w, {}); },
      [](Stream&, const MomentumStep& s, const Tensor& g, Tensor& w, Tensor& buffer) {
        ps::OptimizerOptions options = options_of("sgd", s);
        options.momentum = s.momentum;
        options.nesterov = s.nesterov;
        update_on_cpu(options, s, 0, g, w, {&buffer});
      },
      [](Stream&, const AdamStep& s, const Tensor& g, Tensor& w, Tensor& m, Tensor& v) {
        update_on_cpu(options_of(s.decoupled ? "adamw" : "adam", s), s, s.updates, g, w, {&m, &v});
      },
      [](Stream&, const AdagradStep& s, const Tensor& g, Tensor& w, Tensor& sum) {
        ps::OptimizerOptions options = options_of("adagrad", s);
        options.epsilon = s.epsilon;
        update_on_cpu(options, s, 0, g, w, {&sum});
      },
      [](Stream&, const RmspropStep& s, const Tensor& g, Tensor& w, Tensor& average, Tensor& buffer) {
        ps::OptimizerOptions options = options_of("rmsprop", s);
        options.alpha = s.alpha;
        options.epsilon = s.epsilon;
        options.momentum = s.momentum;
        if (buffer) update_on_cpu(options, s, 0, g, w, {&average, &buffer});
        else update_on_cpu(options, s, 0, g, w, {&average});
      },
      [](Stream&, const AdamStep& s, const Tensor& g, Tensor& w, Tensor& m, Tensor& v) {
        update_on_cpu(options_of("lamb", s), s, s.updates, g, w, {&m, &v});
      }};
  return all;
}

inline const ops::UpdateOps& late_update_ops() {
  static const ops::UpdateOps all = [] {
    ops::UpdateOps ops{};
#define TROUPE_LATE_OP(op) ops.op = Late<cpu_update_ops, &ops::UpdateOps::op>::call;
    TROUPE_EACH_UPDATE_OP(TROUPE_LATE_OP)
#undef TROUPE_LATE_OP
    return ops;
  }();
  return all;
}

}  // namespace troupe::test
