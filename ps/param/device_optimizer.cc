#include <troupe/ps/param/device_optimizer.h>

namespace troupe::ps {

void DeviceOptimizer::apply(Stream& stream, std::span<const Segment> segments,
                            const DeviceUpdate& update) const {
  const double rate = learning_rate(options_, update.schedule_step) * update.rate_scale;
  for (const Segment& segment : segments) {
    const Shape shape{segment.end - segment.begin};
    const Tensor g = update.gradient.view(segment.begin, shape);
    Tensor w = update.values.view(segment.begin, shape);
    if (segment.kind == ParamKind::statistic) {
      ops_->sgd(stream, {1, update.gradient_scale * update.rate_scale, 0}, g, w);
      continue;
    }
    std::vector<Tensor> state;
    for (const Tensor& whole : update.state) state.push_back(whole.view(segment.begin, shape));
    const double decay = segment.kind == ParamKind::weight ? options_.weight_decay : 0;
    step(stream, {rate, update.gradient_scale * update.clip_scale, decay}, g, w, state, update.updates);
  }
}

void DeviceOptimizer::step(Stream& stream, const ops::Step& common, const Tensor& g, Tensor& w,
                           std::vector<Tensor>& state, int64_t updates) const {
  const OptimizerOptions& o = options_;
  const ops::AdamStep adam{common, o.beta1, o.beta2, o.epsilon, updates, o.name == "adamw"};
  Tensor none;
  if (o.name == "sgd" && o.momentum == 0) return ops_->sgd(stream, common, g, w);
  if (o.name == "sgd") return ops_->momentum(stream, {common, o.momentum, o.nesterov}, g, w, state[0]);
  if (o.name == "adam" || o.name == "adamw") return ops_->adam(stream, adam, g, w, state[0], state[1]);
  if (o.name == "adagrad") return ops_->adagrad(stream, {common, o.epsilon}, g, w, state[0]);
  if (o.name == "rmsprop")
    return ops_->rmsprop(stream, {common, o.alpha, o.epsilon, o.momentum}, g, w, state[0],
                         o.momentum > 0 ? state[1] : none);
  TROUPE_CHECK(o.name == "lamb", "optimizer ", o.name, " has no form on a device");
  ops_->lamb(stream, adam, g, w, state[0], state[1]);
}

}  // namespace troupe::ps
