#pragma once
#include <memory>

#include <troupe/kernels/nn/model.h>

namespace troupe::nn {

/// Layers [first, last) of a model, with the nodes that run along with them: what one stage of a pipeline computes. The
/// halves of its backward pass can be taken apart, and any number of micro-batches can be under way, each with a
/// context of its own. Immutable; any number of threads may use it.
class ModelPart {
 public:
  /// `first` and `last` are cuts of the model, or its ends; the part holds at least one layer.
  ModelPart(std::shared_ptr<const Model> model, size_t first, size_t last);

  size_t first() const { return first_; }
  size_t last() const { return last_; }
  bool begins() const { return first_ == 0; }
  bool ends() const { return last_ == model_->layers().size(); }
  const Model& model() const { return *model_; }

  /// Outputs of the part's last node for x, which the part before it gave: the model's input, or [n, shape at the cut].
  Tensor forward(const Pass&, std::span<const Tensor> weights, Tensor x, ModelContext& context) const;

  /// From d loss / d outputs, d loss / d x; empty for the part that begins the model. Once, after `forward`.
  Tensor backward_input(const Pass&, std::span<const Tensor> weights, Tensor doutput, ModelContext& context) const;

  /// Adds the part's weight gradients to `gradients`, by layer of the model; what is empty there begins with them.
  /// Once, at any time after `backward_input`; what the context kept is free afterwards.
  void backward_weight(const Pass&, std::span<const Tensor> weights, std::span<Tensor> gradients,
                       ModelContext& context) const;

 private:
  const Model::Range* range_ending_at(size_t node) const;

  std::shared_ptr<const Model> model_;
  size_t first_, last_;  ///< layers
  size_t first_node_, last_node_;
};

}  // namespace troupe::nn
