#include <troupe/kernels/nn/model_stage_source.h>

#include <utility>

#include <troupe/kernels/nn/loss_scale.h>

namespace troupe::nn {

ModelStageSource::ModelStageSource(std::shared_ptr<const Model> model, std::vector<ModelPart> parts,
                                   std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test,
                                   int threads, DType storage, const ops::Ops& ops)
    : model_(std::move(model)),
      parts_(std::move(parts)),
      train_(std::move(train)),
      test_(std::move(test)),
      storage_(storage),
      ops_(ops),
      stream_({}, threads),
      gradients_(model_->layers().size()) {}

ModelStageSource::Running& ModelStageSource::running(const MicroBatch& micro) {
  const auto found = running_.find(key(micro));
  TROUPE_CHECK(found != running_.end(), "micro-batch ", micro.index, " has not run through part ", micro.part);
  return found->second;
}

Tensor ModelStageSource::forward(const MicroBatch& micro, std::span<const Tensor> weights, Tensor x) {
  TROUPE_CHECK(micro.part < parts_.size(), "part ", micro.part, " of ", parts_.size());
  const ModelPart& part = parts_[micro.part];
  const auto [at, fresh] = running_.try_emplace(key(micro));
  TROUPE_CHECK(fresh, "micro-batch ", micro.index, " is in part ", micro.part, " already");
  Running& running = at->second;

  const Dataset& data = micro.training ? *train_ : *test_;
  const auto count = static_cast<int64_t>(micro.samples.size());
  Tensor labels;
  if (part.begins() || part.ends()) {
    Tensor inputs = stream_.empty(batch_shape(count, data.sample_shape()), data.sample_dtype());
    labels = stream_.empty(batch_shape(count, data.label_shape()), DType::i32);
    data.gather(micro.samples, inputs, labels);
    if (part.begins()) x = std::move(inputs);
  }
  if (!part.begins()) {
    const Shape expected = batch_shape(count, model_->shape_at(part.first()));
    TROUPE_CHECK(x && x.shape() == expected, "part ", micro.part, " gets ", x ? x.shape() : Shape{}, " for ", expected);
  }
  Tensor y = part.forward(pass(micro), weights, std::move(x), running.context);
  if (part.ends()) {
    stats_ += loss_sums(softmax_cross_entropy_sums(pass(micro), y, labels, running.dlogits), labels.shape());
    y = {};
  }
  if (!micro.training) running_.erase(at);
  return y;
}

Tensor ModelStageSource::backward_input(const MicroBatch& micro, std::span<const Tensor> weights, Tensor doutput) {
  Running& running = this->running(micro);
  const ModelPart& part = parts_[micro.part];
  if (part.ends()) {
    doutput = std::move(running.dlogits);
  } else {
    const Shape expected = batch_shape(static_cast<int64_t>(micro.samples.size()), model_->shape_at(part.last()));
    TROUPE_CHECK(doutput && doutput.shape() == expected, "part ", micro.part, " gets a gradient of ",
                 doutput ? doutput.shape() : Shape{}, " for ", expected);
    // Layers write into what they are given, and this is the neighbour's, who may keep it, or lends it to be read
    // alone.
    Tensor own = stream_.empty(doutput.shape(), doutput.dtype());
    stream_.copy(doutput, own);
    doutput = std::move(own);
  }
  return part.backward_input(pass(micro), weights, std::move(doutput), running.context);
}

void ModelStageSource::backward_weight(const MicroBatch& micro, std::span<const Tensor> weights) {
  parts_[micro.part].backward_weight(pass(micro), weights, gradients_, running(micro).context);
  loss_scale_ = micro.loss_scale;
  running_.erase(key(micro));
}

Tensor ModelStageSource::take_gradient(size_t layer) {
  TROUPE_CHECK(gradients_[layer], "no micro-batch has been through layer ", layer);
  Tensor gradient = std::exchange(gradients_[layer], {});
  unscale({stream_, ops_, true, 0, 0, storage_, loss_scale_}, layers()[layer], gradient);
  return gradient;
}

void ModelStageSource::reset() {
  running_.clear();
  for (Tensor& gradient : gradients_) gradient = {};
  stats_ = {};
}

}  // namespace troupe::nn
