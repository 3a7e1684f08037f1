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
  friend class ModelPart;
  Tensor input_;
  std::vector<LayerContext> layers_;
  std::vector<Tensor> outputs_;    ///< by node, while a later node still reads it
  std::vector<Tensor> gradients_;  ///< by node: d loss / d output, as far as it is known
  std::vector<Tensor> shares_;     ///< by layer: its gradient, while other nodes that use it are still to add to it
  std::vector<Tensor> entries_;    ///< by recomputed range: what went in
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
  /// Appends a node that uses the parameters of layer `shared` as well, of which it must have equally many (a head
  /// that is tied to the embedding). It runs along with the layer before it; the gradient of `shared` is handed out
  /// when all nodes that use it have added to it.
  int add_tied(size_t shared, std::unique_ptr<const Layer> layer, int input = kPrevious);

  /// Lets nodes [first, last) keep nothing of a training pass between its halves but what went in: `backward` runs
  /// them forward once more, to the same bits. Later nodes may read only the last of them, and nothing may come in but
  /// one node's output. Ranges do not overlap. Called when all nodes are there.
  void recompute(int first, int last);

  int nodes() const { return static_cast<int>(nodes_.size()); }
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
  /// Layers before which the model can be cut in two: one tensor alone, the output of the node before, is read behind
  /// the cut, and no recomputed range lies on both sides. Ascending. (A tied layer may then be a layer of both parts.)
  std::vector<size_t> cuts() const;
  /// Where layers are used once more: the layer, and the one that the node in question runs along with.
  struct Tied {
    size_t layer, user;
  };
  std::vector<Tied> tied() const;
  /// Shape of one sample of the tensor that crosses at a cut.
  const Shape& shape_at(size_t cut) const { return nodes_[first_node(cut) - 1].output; }

  /// Multiply-adds of one sample's forward pass through a layer and the nodes that run along with it, about.
  int64_t work(size_t layer) const;
  /// Parameters of a layer that learn: all but running statistics.
  int64_t parameters(size_t layer) const;
  /// Values that the layer and the nodes along with it put out for one sample.
  int64_t outputs(size_t layer) const;

  /// Whether a layer draws random numbers in training.
  bool draws() const;

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
  friend class ModelPart;
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
    bool owner = false;  ///< the first of the nodes with its LayerSpec: the last to add to the gradient
    int range = kNone;   ///< the recomputed range that it is in
  };
  struct Range {
    int first, last;
  };

  int append(const std::string& name, std::unique_ptr<const Layer> layer, int input, int skip);

  static Tensor weights_of(const Pass&, std::span<const Tensor> weights, const Node&);
  void run_node(const Pass&, std::span<const Tensor> weights, size_t index, ModelContext&) const;
  void run_range_again(const Pass&, std::span<const Tensor> weights, const Range&, ModelContext&) const;
  void forget_range(const Range&, ModelContext&) const;
  void run_node_back(const Pass&, std::span<const Tensor> weights, size_t index,
                     const GradientSource::GradientReady& ready, ModelContext&) const;
  Tensor node_back_input(const Pass&, std::span<const Tensor> weights, size_t index, ModelContext&) const;
  void node_back_weight(const Pass&, const Tensor& weights, size_t index, ops::Write, Tensor& gradient,
                        ModelContext&) const;
  void pass_back(const Pass&, size_t index, Tensor dx, ModelContext&) const;
  void give_gradient(const Pass&, std::span<const Tensor> weights, size_t index,
                     const GradientSource::GradientReady& ready, ModelContext&) const;
  void set_gradient_order();
  void add_gradient(const Pass&, int node, Tensor gradient, ModelContext&) const;
  bool wants_gradient(int node) const { return node >= 0 && nodes_[static_cast<size_t>(node)].learns; }
  bool is_last_of(int range, size_t node) const {
    return ranges_[static_cast<size_t>(range)].last == static_cast<int>(node) + 1;
  }
  size_t first_node(size_t layer) const;

  Shape sample_;
  std::vector<Node> nodes_;
  std::vector<LayerSpec> specs_;
  std::vector<size_t> spec_nodes_;  ///< by LayerSpec: the first node that has it
  std::vector<size_t> gradient_order_;
  std::vector<Range> ranges_;
};

}  // namespace troupe::nn
