#include <troupe/kernels/nn/model.h>

#include <new>
#include <stdexcept>
#include <utility>

#include <troupe/kernels/nn/empty_gradient.h>
#include <troupe/kernels/nn/half_storage.h>

// Passes through a model, forward and back; what the graph is stands in model.cc.
namespace troupe::nn {
namespace {

// Says which layer asked for memory that was not there.
template <class Work>
void on_behalf_of(const std::string& layer, const Work& work) {
  try {
    work();
  } catch (const std::bad_alloc& e) {
    throw std::runtime_error(cat("no memory for layer ", layer, ": ", e.what()));
  }
}

}  // namespace

void ModelContext::begin(Tensor input) {
  input_ = std::move(input);
  for (LayerContext& layer : layers_) layer = {};
  for (Tensor& output : outputs_) output = {};
  for (Tensor& gradient : gradients_) gradient = {};
  for (Tensor& share : shares_) share = {};
  for (Tensor& entry : entries_) entry = {};
  next_ = 0;
}

size_t Model::layers_done(const ModelContext& context) const {
  size_t done = 0;
  while (done < specs_.size() && first_node(done + 1) <= context.next_) ++done;
  return done;
}

void Model::forward(const Pass& pass, std::span<const Tensor> weights, size_t first, size_t last,
                    ModelContext& context) const {
  TROUPE_CHECK(weights.size() == specs_.size() && last <= specs_.size(), weights.size(),
               " weights, layers up to ", last, " of ", specs_.size());
  TROUPE_CHECK(context.next_ == first_node(first), "layer ", first, " begins at node ", first_node(first),
               ", but the pass is at node ", context.next_);
  context.layers_.resize(nodes_.size());
  context.outputs_.resize(nodes_.size());
  context.gradients_.resize(nodes_.size());
  context.shares_.resize(specs_.size());
  context.entries_.resize(ranges_.size());
  for (; context.next_ < first_node(last); ++context.next_) {
    on_behalf_of(nodes_[context.next_].name, [&] { run_node(pass, weights, context.next_, context); });
    if (const int range = nodes_[context.next_].range; range >= 0 && is_last_of(range, context.next_))
      forget_range(ranges_[static_cast<size_t>(range)], context);
  }
}

Tensor Model::weights_of(const Pass& pass, std::span<const Tensor> weights, const Node& node) {
  return node.spec < 0 ? Tensor() : weights_for(pass, *node.layer, weights[static_cast<size_t>(node.spec)]);
}

void Model::run_node(const Pass& pass, std::span<const Tensor> weights, size_t index,
                     ModelContext& context) const {
  const Node& node = nodes_[index];
  auto& outputs = context.outputs_;
  LayerContext& layer = context.layers_[index];
  if (node.skip >= 0) layer.skip = loaded(pass, outputs[static_cast<size_t>(node.skip)]);
  if (node.input < 0) context.input_ = stored(pass, context.input_);
  const Tensor kept = node.input < 0 ? context.input_ : outputs[static_cast<size_t>(node.input)];
  const Range* const range = node.range < 0 ? nullptr : &ranges_[static_cast<size_t>(node.range)];
  if (range && range->first == static_cast<int>(index)) context.entries_[static_cast<size_t>(node.range)] = kept;
  const Tensor x = loaded(pass, kept);
  Tensor y = node.layer->forward(pass, weights_of(pass, weights, node), x, layer);
  outputs[index] = store_forward(pass, x, kept, std::move(y), index + 1 == nodes_.size(), layer);
  // Memory that no layer kept for its backward half goes to the next one that asks.
  for (int read : {node.input, node.skip})
    if (read >= 0 && nodes_[static_cast<size_t>(read)].last_use == static_cast<int>(index))
      outputs[static_cast<size_t>(read)] = {};
}

void Model::forget_range(const Range& range, ModelContext& context) const {
  for (int index = range.first; index < range.last; ++index) context.layers_[static_cast<size_t>(index)] = {};
}

// What comes out has been read already, in the pass that this one repeats.
void Model::run_range_again(const Pass& pass, std::span<const Tensor> weights, const Range& range,
                            ModelContext& context) const {
  const Node& first = nodes_[static_cast<size_t>(range.first)];
  const Tensor entry = context.entries_[static_cast<size_t>(first.range)];
  if (first.input >= 0) context.outputs_[static_cast<size_t>(first.input)] = entry;
  for (int index = range.first; index < range.last; ++index)
    run_node(pass, weights, static_cast<size_t>(index), context);
  if (first.input >= 0) context.outputs_[static_cast<size_t>(first.input)] = {};
  context.outputs_[static_cast<size_t>(range.last - 1)] = {};
  context.entries_[static_cast<size_t>(first.range)] = {};
}

void Model::backward(const Pass& pass, std::span<const Tensor> weights, Tensor doutput,
                     const GradientSource::GradientReady& ready, ModelContext& context) const {
  TROUPE_CHECK(forward_done(context), "backward before the forward pass is complete");
  context.gradients_.back() = std::move(doutput);
  for (size_t index = nodes_.size(); index-- > 0;)
    on_behalf_of(nodes_[index].name, [&] {
      if (const int range = nodes_[index].range; range >= 0 && is_last_of(range, index))
        run_range_again(pass, weights, ranges_[static_cast<size_t>(range)], context);
      if (nodes_[index].learns) run_node_back(pass, weights, index, ready, context);
    });
  for (size_t index = 0; index < nodes_.size(); ++index)
    if (nodes_[index].waits)
      on_behalf_of(nodes_[index].name, [&] { give_gradient(pass, weights, index, ready, context); });
}

void Model::run_node_back(const Pass& pass, std::span<const Tensor> weights, size_t index,
                          const GradientSource::GradientReady& ready, ModelContext& context) const {
  const Node& node = nodes_[index];
  Tensor dx = node_back_input(pass, weights, index, context);
  if (node.spec >= 0 && !node.waits) give_gradient(pass, weights, index, ready, context);
  if (!node.waits) context.layers_[index] = {};
  pass_back(pass, index, std::move(dx), context);
}

Tensor Model::node_back_input(const Pass& pass, std::span<const Tensor> weights, size_t index,
                              ModelContext& context) const {
  const Node& node = nodes_[index];
  LayerContext& kept = context.layers_[index];
  Tensor dy = loaded(pass, stored(pass, std::exchange(context.gradients_[index], {})));
  const Tensor w = weights_of(pass, weights, node);
  if (!halves(pass)) return node.layer->backward_input(pass, w, std::move(dy), wants_gradient(node.input), kept);
  LayerContext wide = loaded(pass, kept);
  Tensor dx = node.layer->backward_input(pass, w, std::move(dy), wants_gradient(node.input), wide);
  kept.dz = stored(pass, wide.dz);
  kept.dscale = wide.dscale;
  kept.dshift = wide.dshift;
  return stored(pass, dx);
}

void Model::node_back_weight(const Pass& pass, const Tensor& weights, size_t index, ops::Write write, Tensor& gradient,
                             ModelContext& context) const {
  const LayerContext& kept = context.layers_[index];
  const Layer& layer = *nodes_[index].layer;
  if (halves(pass))
    layer.backward_weight(pass, weights, loaded(pass, kept), write, gradient);
  else
    layer.backward_weight(pass, weights, kept, write, gradient);
  context.layers_[index] = {};
}

// Hands what a node gave back to those whose outputs it had read.
void Model::pass_back(const Pass& pass, size_t index, Tensor dx, ModelContext& context) const {
  const Node& node = nodes_[index];
  if (wants_gradient(node.skip)) {
    Tensor dskip = dx;
    if (!halves(pass)) {  // what is stored is written by nobody
      dskip = pass.stream.empty(dx.shape(), dx.dtype());
      pass.ops.copy(pass.stream, dx, dskip);
    }
    add_gradient(pass, node.skip, std::move(dskip), context);
  }
  if (wants_gradient(node.input)) add_gradient(pass, node.input, std::move(dx), context);
}

void Model::give_gradient(const Pass& pass, std::span<const Tensor> weights, size_t index,
                          const GradientSource::GradientReady& ready, ModelContext& context) const {
  const auto spec = static_cast<size_t>(nodes_[index].spec);
  Tensor& share = context.shares_[spec];
  const auto write = share ? ops::Write::add : ops::Write::set;
  if (!share) share = empty_gradient(pass.stream, {weights[spec].count()}, weights[spec].dtype());
  node_back_weight(pass, weights[spec], index, write, share, context);
  if (nodes_[index].owner) ready(spec, std::exchange(share, {}));
}

void Model::add_gradient(const Pass& pass, int node, Tensor gradient, ModelContext& context) const {
  Tensor& sum = context.gradients_[static_cast<size_t>(node)];
  if (!sum) {
    sum = std::move(gradient);
    return;
  }
  Tensor wide = loaded(pass, sum);
  pass.ops.add(pass.stream, wide, loaded(pass, gradient), wide);
  sum = stored(pass, wide);
}

}  // namespace troupe::nn
