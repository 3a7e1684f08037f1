#include <troupe/kernels/nn/model.h>

#include <new>
#include <stdexcept>

namespace troupe::nn {
namespace {

int64_t count_of(const std::vector<ParamSpec>& params) {
  return params.empty() ? 0 : params.back().offset + params.back().shape.count();
}

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
  next_ = 0;
}

int Model::add(const std::string& name, std::unique_ptr<const Layer> layer, int input, int skip) {
  const int index = static_cast<int>(nodes_.size());
  if (input == kPrevious) input = index - 1;
  TROUPE_CHECK(input < index && skip < index, "node ", index, " reads ", input, " and ", skip);
  const auto learns = [this](int node) { return wants_gradient(node); };
  Node node{name, std::move(layer), input, skip, kNone, index, learns(input) || learns(skip), false, {}};
  const Shape& read = input < 0 ? sample_ : nodes_[static_cast<size_t>(input)].output;
  node.output = node.layer->output_shape(read);
  if (input >= 0) nodes_[static_cast<size_t>(input)].last_use = index;
  if (skip >= 0) nodes_[static_cast<size_t>(skip)].last_use = index;

  if (auto params = node.layer->params(); !params.empty()) {
    LayerSpec spec{name, count_of(params), std::move(params)};
    for (ParamSpec& param : spec.params) param.name = name + "." + param.name;
    node.spec = static_cast<int>(specs_.size());
    node.learns = true;
    node.waits = spec.count > read.count() + node.output.count();
    specs_.push_back(std::move(spec));
    spec_nodes_.push_back(static_cast<size_t>(index));
  }
  nodes_.push_back(std::move(node));
  set_gradient_order();
  return index;
}

void Model::set_gradient_order() {
  gradient_order_.clear();
  for (size_t layer = specs_.size(); layer-- > 0;)
    if (!nodes_[spec_nodes_[layer]].waits) gradient_order_.push_back(layer);
  for (size_t layer = 0; layer < specs_.size(); ++layer)
    if (nodes_[spec_nodes_[layer]].waits) gradient_order_.push_back(layer);
}

void Model::initialize(size_t layer, uint64_t seed, std::span<float> values) const {
  TROUPE_CHECK(layer < specs_.size() && static_cast<int64_t>(values.size()) == specs_[layer].count, "layer ",
               layer, ", ", values.size(), " values");
  Random random(derive_seed(seed, "init", layer));
  nodes_[spec_nodes_[layer]].layer->initialize(random, values);
}

size_t Model::first_node(size_t layer) const {
  if (layer == 0) return 0;
  return layer < specs_.size() ? spec_nodes_[layer] : nodes_.size();
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
  for (; context.next_ < first_node(last); ++context.next_)
    on_behalf_of(nodes_[context.next_].name, [&] { run_node(pass, weights, context.next_, context); });
}

void Model::run_node(const Pass& pass, std::span<const Tensor> weights, size_t index,
                     ModelContext& context) const {
  const Node& node = nodes_[index];
  auto& outputs = context.outputs_;
  LayerContext& layer = context.layers_[index];
  if (node.skip >= 0) layer.skip = outputs[static_cast<size_t>(node.skip)];
  const Tensor& x = node.input < 0 ? context.input_ : outputs[static_cast<size_t>(node.input)];
  const Tensor none;
  outputs[index] =
      node.layer->forward(pass, node.spec < 0 ? none : weights[static_cast<size_t>(node.spec)], x, layer);
  // Memory that no layer kept for its backward half goes to the next one that asks.
  for (int read : {node.input, node.skip})
    if (read >= 0 && nodes_[static_cast<size_t>(read)].last_use == static_cast<int>(index))
      outputs[static_cast<size_t>(read)] = {};
}

void Model::backward(const Pass& pass, std::span<const Tensor> weights, Tensor doutput,
                     const GradientSource::GradientReady& ready, ModelContext& context) const {
  TROUPE_CHECK(forward_done(context), "backward before the forward pass is complete");
  context.gradients_.back() = std::move(doutput);
  for (size_t index = nodes_.size(); index-- > 0;)
    if (nodes_[index].learns)
      on_behalf_of(nodes_[index].name, [&] { run_node_back(pass, weights, index, ready, context); });
  for (size_t index = 0; index < nodes_.size(); ++index)
    if (nodes_[index].waits)
      on_behalf_of(nodes_[index].name, [&] { give_gradient(pass, weights, index, ready, context); });
}

void Model::run_node_back(const Pass& pass, std::span<const Tensor> weights, size_t index,
                          const GradientSource::GradientReady& ready, ModelContext& context) const {
  const Node& node = nodes_[index];
  LayerContext& layer = context.layers_[index];
  const bool has_params = node.spec >= 0;
  const Tensor none;
  const Tensor& flat = has_params ? weights[static_cast<size_t>(node.spec)] : none;
  Tensor dx = node.layer->backward_input(pass, flat, std::move(context.gradients_[index]),
                                         wants_gradient(node.input), layer);
  if (has_params && !node.waits) give_gradient(pass, weights, index, ready, context);
  if (!node.waits) layer = {};
  if (wants_gradient(node.skip)) {
    Tensor dskip = pass.stream.empty(dx.shape(), dx.dtype());
    pass.ops.copy(pass.stream, dx, dskip);
    add_gradient(pass, node.skip, std::move(dskip), context);
  }
  if (wants_gradient(node.input)) add_gradient(pass, node.input, std::move(dx), context);
}

void Model::give_gradient(const Pass& pass, std::span<const Tensor> weights, size_t index,
                          const GradientSource::GradientReady& ready, ModelContext& context) const {
  const auto spec = static_cast<size_t>(nodes_[index].spec);
  Tensor gradient = pass.stream.empty({specs_[spec].count}, weights[spec].dtype());
  nodes_[index].layer->backward_weight(pass, weights[spec], context.layers_[index], ops::Write::set, gradient);
  context.layers_[index] = {};
  ready(spec, std::move(gradient));
}

void Model::add_gradient(const Pass& pass, int node, Tensor gradient, ModelContext& context) const {
  Tensor& sum = context.gradients_[static_cast<size_t>(node)];
  if (!sum)
    sum = std::move(gradient);
  else
    pass.ops.add(pass.stream, sum, gradient, sum);
}

}  // namespace troupe::nn
