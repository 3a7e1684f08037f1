#include <troupe/kernels/nn/model_part.h>

#include <algorithm>

#include <troupe/kernels/nn/empty_gradient.h>

namespace troupe::nn {

ModelPart::ModelPart(std::shared_ptr<const Model> model, size_t first, size_t last)
    : model_(std::move(model)), first_(first), last_(last) {
  const size_t layers = model_->layers().size();
  const std::vector<size_t> cuts = model_->cuts();
  const auto possible = [&](size_t at) { return at == 0 || at == layers || std::ranges::binary_search(cuts, at); };
  TROUPE_CHECK(first < last && last <= layers && possible(first) && possible(last), "layers ", first, " to ", last,
               " of ", layers, " cannot be computed apart from the others");
  first_node_ = model_->first_node(first);
  last_node_ = model_->first_node(last);
}

Tensor ModelPart::forward(const Pass& pass, std::span<const Tensor> weights, Tensor x, ModelContext& context) const {
  const size_t nodes = model_->nodes_.size();
  context.begin({});
  context.layers_.resize(nodes);
  context.outputs_.resize(nodes);
  context.gradients_.resize(nodes);
  context.entries_.resize(model_->ranges_.size());
  (first_node_ == 0 ? context.input_ : context.outputs_[first_node_ - 1]) = std::move(x);
  for (size_t index = first_node_; index < last_node_; ++index) {
    model_->run_node(pass, weights, index, context);
    if (const auto* range = range_ending_at(index)) model_->forget_range(*range, context);
  }
  return std::move(context.outputs_[last_node_ - 1]);
}

const Model::Range* ModelPart::range_ending_at(size_t node) const {
  const int range = model_->nodes_[node].range;
  return range >= 0 && model_->is_last_of(range, node) ? &model_->ranges_[static_cast<size_t>(range)] : nullptr;
}

Tensor ModelPart::backward_input(const Pass& pass, std::span<const Tensor> weights, Tensor doutput,
                                 ModelContext& context) const {
  context.gradients_[last_node_ - 1] = std::move(doutput);
  for (size_t index = last_node_; index-- > first_node_;) {
    if (const auto* range = range_ending_at(index)) model_->run_range_again(pass, weights, *range, context);
    if (!model_->nodes_[index].learns) continue;
    Tensor dx = model_->node_back_input(pass, weights, index, context);
    if (model_->nodes_[index].spec < 0) context.layers_[index] = {};
    model_->pass_back(pass, index, std::move(dx), context);
  }
  return first_node_ == 0 ? Tensor{} : std::move(context.gradients_[first_node_ - 1]);
}

void ModelPart::backward_weight(const Pass& pass, std::span<const Tensor> weights, std::span<Tensor> gradients,
                                ModelContext& context) const {
  for (size_t index = last_node_; index-- > first_node_;) {
    const Model::Node& node = model_->nodes_[index];
    if (node.spec < 0) continue;
    const auto layer = static_cast<size_t>(node.spec);
    const auto write = gradients[layer] ? ops::Write::add : ops::Write::set;
    if (!gradients[layer])
      gradients[layer] = empty_gradient(pass.stream, {model_->layers()[layer].count}, weights[layer].dtype());
    model_->node_back_weight(pass, weights[layer], index, write, gradients[layer], context);
  }
}

}  // namespace troupe::nn
