#include <troupe/kernels/nn/model.h>

#include <algorithm>
#include <utility>

namespace troupe::nn {
namespace {

int64_t count_of(const std::vector<ParamSpec>& params) {
  return params.empty() ? 0 : params.back().offset + params.back().shape.count();
}

}  // namespace

int Model::append(const std::string& name, std::unique_ptr<const Layer> layer, int input, int skip) {
  const int index = static_cast<int>(nodes_.size());
  if (input == kPrevious) input = index - 1;
  TROUPE_CHECK(input < index && skip < index, "node ", index, " reads ", input, " and ", skip);
  const auto learns = [this](int node) { return wants_gradient(node); };
  Node node{name, std::move(layer), input, skip, kNone, index, learns(input) || learns(skip), false, {}};
  node.output = node.layer->output_shape(input < 0 ? sample_ : nodes_[static_cast<size_t>(input)].output);
  if (input >= 0) nodes_[static_cast<size_t>(input)].last_use = index;
  if (skip >= 0) nodes_[static_cast<size_t>(skip)].last_use = index;
  nodes_.push_back(std::move(node));
  return index;
}

int Model::add(const std::string& name, std::unique_ptr<const Layer> layer, int input, int skip) {
  const int index = append(name, std::move(layer), input, skip);
  Node& node = nodes_.back();
  if (auto params = node.layer->params(); !params.empty()) {
    LayerSpec spec{name, count_of(params), std::move(params)};
    for (ParamSpec& param : spec.params) param.name = name + "." + param.name;
    const Shape& read = node.input < 0 ? sample_ : nodes_[static_cast<size_t>(node.input)].output;
    spec.row_width = node.layer->row_width();
    TROUPE_CHECK(spec.row_width == 0 || node.input < 0, "layer ", name,
                 " is by rows and reads a node's output: only rows that the model's input names are known beforehand");
    node.spec = static_cast<int>(specs_.size());
    node.learns = node.owner = true;
    node.waits = spec.count > read.count() + node.output.count();
    specs_.push_back(std::move(spec));
    spec_nodes_.push_back(static_cast<size_t>(index));
  }
  set_gradient_order();
  return index;
}

int Model::add_tied(size_t shared, std::unique_ptr<const Layer> layer, int input) {
  TROUPE_CHECK(shared < specs_.size() && count_of(layer->params()) == specs_[shared].count, "layer ", shared, " has ",
               shared < specs_.size() ? specs_[shared].count : 0, " parameters, the node that shares them needs ",
               count_of(layer->params()));
  TROUPE_CHECK(specs_[shared].row_width == 0, "layer ", specs_[shared].name, " is by rows, and tied");
  const int index = append(specs_[shared].name, std::move(layer), input, kNone);
  nodes_.back().spec = static_cast<int>(shared);
  nodes_.back().learns = true;
  return index;
}

void Model::recompute(int first, int last) {
  TROUPE_CHECK(first >= 0 && first < last && last <= static_cast<int>(nodes_.size()), first, " to ", last, " of ",
               nodes_.size(), " nodes");
  const int entry = nodes_[static_cast<size_t>(first)].input;
  for (int index = first; index < last; ++index) {
    Node& node = nodes_[static_cast<size_t>(index)];
    const auto inside = [&](int read) { return read == kNone || read == entry || read >= first; };
    TROUPE_CHECK(node.range == kNone && inside(node.input) && inside(node.skip) &&
                     (index == last - 1 || node.last_use < last),
                 "node ", index, " cannot be recomputed between ", first, " and ", last);
    node.range = static_cast<int>(ranges_.size());
    node.waits = false;  // what it would keep until the end is what is not to be kept
  }
  ranges_.push_back({first, last});
  set_gradient_order();
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

std::vector<size_t> Model::cuts() const {
  std::vector<size_t> cuts;
  for (size_t layer = 1; layer < specs_.size(); ++layer) {
    const auto at = static_cast<int>(spec_nodes_[layer]);
    const int range = nodes_[spec_nodes_[layer]].range;
    bool possible = range < 0 || ranges_[static_cast<size_t>(range)].first == at;
    for (size_t index = spec_nodes_[layer]; index < nodes_.size(); ++index) {
      const Node& node = nodes_[index];
      possible = possible && (node.input >= at - 1) && (node.skip == kNone || node.skip >= at - 1);
    }
    if (possible) cuts.push_back(layer);
  }
  return cuts;
}

std::vector<Model::Tied> Model::tied() const {
  std::vector<Tied> tied;
  size_t user = 0;
  for (size_t index = 0; index < nodes_.size(); ++index) {
    while (user + 1 < specs_.size() && spec_nodes_[user + 1] <= index) ++user;
    if (nodes_[index].spec >= 0 && !nodes_[index].owner)
      tied.push_back({static_cast<size_t>(nodes_[index].spec), user});
  }
  return tied;
}

int64_t Model::work(size_t layer) const {
  int64_t sum = 0;
  for (size_t index = first_node(layer); index < first_node(layer + 1); ++index) {
    const int input = nodes_[index].input;
    sum += nodes_[index].layer->work(input < 0 ? sample_ : nodes_[static_cast<size_t>(input)].output);
  }
  return sum;
}

int64_t Model::parameters(size_t layer) const {
  int64_t count = 0;
  for (const ParamSpec& param : specs_[layer].params)
    if (param.kind != ParamKind::statistic) count += param.shape.count();
  return count;
}

int64_t Model::outputs(size_t layer) const {
  int64_t sum = 0;
  for (size_t index = first_node(layer); index < first_node(layer + 1); ++index) sum += nodes_[index].output.count();
  return sum;
}

bool Model::draws() const {
  return std::ranges::any_of(nodes_, [](const Node& node) { return node.layer->draws(); });
}

}  // namespace troupe::nn
