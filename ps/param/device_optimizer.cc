#include <troupe/ps/param/device_optimizer.h>

namespace troupe::ps {

void DeviceOptimizer::apply(Stream& stream, const LayerSpec& layer, const DeviceUpdate& update) const {
  const double rate = learning_rate(options_, update.schedule_step);
  for (const ParamSpec& param : layer.params) {
    const Tensor g = update.gradient.view(param.offset, param.shape);
    Tensor w = update.values.view(param.offset, param.shape);
    if (param.kind == ParamKind::statistic) {
      ops_->sgd(stream, {1, update.gradient_scale, 0}, g, w);
      continue;
    }
    std::vector<Tensor> state;
    for (const Tensor& whole : update.state) state.push_back(whole.view(param.offset, param.shape));
    const double decay = param.kind == ParamKind::weight ? options_.weight_decay : 0;
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
