#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// One pass through a model: what the layers keep, and the tensors between them. Reused from step to step it
/// allocates nothing but tensors. One thread at a time.
class ModelContext {
 public:
  /// Begins a pass over `input` and forgets the one before.
  void begin(Tensor input);
  /// The model's output once the forward pass is complete. Once a pass.
  Tensor take_output() { return std::move(outputs_.back()); }

 private:
  friend class Model;
  Tensor input_;
  std::vector<LayerContext> layers_;
  std::vector<Tensor> outputs_;    ///< by node, while a later node still reads it
  std::vector<Tensor> gradients_;  ///< by node: d loss / d output, as far as it is known
  size_t next_ = 0;                ///< nodes before it have run
};

/// Layers in the order they run, each reading an earlier one's output: a chain with shortcuts. Once built it
/// is immutable, and any number of threads may use it, each with a context of its own.
///
/// "Layer" in the interface means a layer with parameters (a LayerSpec); one without runs along with the
/// layer before it, or with the first.
class Model {
 public:
  /// `sample` is the shape of one input sample.
  explicit Model(Shape sample) : sample_(sample) {}

  static constexpr int kPrevious = -1;
  static constexpr int kNone = -2;

  /// Appends a node that reads node `input`'s output (kPrevious: the last node's, or the model's input), and
  /// node `skip`'s as LayerContext::skip. Its parameters are called `name`.weight and so on. Returns the
  /// node's number.
  int add(const std::string& name, std::unique_ptr<const Layer> layer, int input = kPrevious,
          int skip = kNone);

  const std::vector<LayerSpec>& layers() const { return specs_; }
  const Shape& input_shape() const { return sample_; }  ///< of one sample
  const Shape& output_shape() const { return nodes_.empty() ? sample_ : nodes_.back().output; }

  /// First parameters of a layer: the same for a seed everywhere.
  void initialize(size_t layer, uint64_t seed, std::span<float> values) const;

  /// Runs layers [first, last) of the pass that `context` began; ranges follow each other without gaps.
  void forward(const Pass&, std::span<const Tensor> weights, size_t first, size_t last,
               ModelContext& context) const;
  /// Whether all layers have run.
  bool forward_done(const ModelContext& context) const { return context.next_ == nodes_.size(); }
  /// How many layers have run.
  size_t layers_done(const ModelContext& context) const;

  /// The order in which `backward` hands out layers: last first, but for layers with more parameters than values
  /// in and out of one sample. Their weight gradients wait, which costs little memory, and come at the end, first
  /// layer first: the next step begins with it, and what follows here covers its way to the server and back.
  const std::vector<size_t>& gradient_order() const { return gradient_order_; }

  /// From d loss / d output, every layer's gradient, handed to `ready` in `gradient_order`.
  void backward(const Pass&, std::span<const Tensor> weights, Tensor doutput,
                const GradientSource::GradientReady& ready, ModelContext& context) const;

 private:
  struct Node {
    std::string name;
    std::unique_ptr<const Layer> layer;
    int input;     ///< a node, or kPrevious for the model's input
    int skip;      ///< a node, or kNone
    int spec;      ///< index of its LayerSpec, or kNone
    int last_use;  ///< the last node that reads its output
    bool learns;   ///< it or a node before it has parameters, so its output's gradient is wanted
    bool waits;    ///< its weight gradient is worked out after all that do not wait
    Shape output;
  };

  void run_node(const Pass&, std::span<const Tensor> weights, size_t index, ModelContext&) const;
  void run_node_back(const Pass&, std::span<const Tensor> weights, size_t index,
                     const GradientSource::GradientReady& ready, ModelContext&) const;
  void give_gradient(const Pass&, std::span<const Tensor> weights, size_t index,
                     const GradientSource::GradientReady& ready, ModelContext&) const;
  void set_gradient_order();
  void add_gradient(const Pass&, int node, Tensor gradient, ModelContext&) const;
  bool wants_gradient(int node) const { return node >= 0 && nodes_[static_cast<size_t>(node)].learns; }
  size_t first_node(size_t layer) const;

  Shape sample_;
  std::vector<Node> nodes_;
  std::vector<LayerSpec> specs_;
  std::vector<size_t> spec_nodes_;  ///< by LayerSpec: its node
  std::vector<size_t> gradient_order_;
};

}  // namespace troupe::nn
