#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/kernels/nn/model.h>
#include <troupe/ps/pipeline/layer_profile.h>

namespace troupe::ps {

/// What the planner knows of one layer, for one sample. Bytes are those of the forward pass's activations; what is
/// `split` is divided among the devices of a tensor-parallel group.
struct LayerLoad {
  std::string name;
  uint32_t layers = 1;           ///< of the model, that cannot be cut apart
  double parameters = 0;         ///< count, split
  double shared_parameters = 0;  ///< of an earlier layer: a stage of its own holds a copy of them; split
  double forward_flops = 0;      ///< split
  double attention_flops = 0;  ///< of these, without weights: twice as many in backward_input, none in backward_weight
  double whole_bytes = 0;      ///< kept for the backward pass, split only under sequence parallelism
  double split_bytes = 0;      ///< kept, split
  double attention_bytes = 0;  ///< kept, split; selective recomputation makes them again
  double weight_bytes = 0;     ///< kept from backward_input to backward_weight, split
  double output_bytes = 0;     ///< what the next layer reads
  bool recomputes = true;      ///< full recomputation keeps its output alone, and runs its forward again
  bool reduces = false;        ///< a tensor-parallel group reduces output_bytes twice a forward, twice a backward
};

struct ModelLoad {
  std::string name;
  std::vector<LayerLoad> layers;
  int64_t heads = 0;         ///< of attention: tensor parallelism divides them; 0: it cannot be used
  double bytes_a_value = 4;  ///< of a weight and of its gradient: 2 in half precision

  double parameters() const;
  double forward_flops() const;  ///< of a sample
};

/// A decoder-only transformer.
struct TransformerShape {
  int64_t layers = 1, width = 1, heads = 1;
  int64_t context = 1, vocabulary = 1;
  bool tied = true;  ///< the head reads the embedding's weights
  bool learned_positions = true;
};

/// Layers "embedding", "block1", ..., "head". Parameters, FLOPs: arXiv 2104.04473, section 5.1 and appendix;
/// activations: arXiv 2205.05198, table 2, with fp32 logits; after backward_input 32 s h of a block are kept (arXiv
/// 2401.10241, table 1).
/// `bytes_a_value`: 2 in half precision, for which those are; in fp32 (4) all is twice as large.
ModelLoad transformer_load(const TransformerShape& shape, double bytes_a_value = 2);

/// A measured model: a row a row of the profile, whose times go with it as PlanTask::measured.
ModelLoad profile_load(const LayerProfile& profile, const std::string& name);

/// Any of Troupe's models, from its layers' shapes: two FLOPs a multiply-add, every output kept.
ModelLoad model_load(const nn::Model& model, const std::string& name, double bytes_a_value = 4);

}  // namespace troupe::ps
