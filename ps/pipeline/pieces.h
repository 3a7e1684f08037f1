#pragma once
#include <string>
#include <vector>

#include <troupe/kernels/nn/model.h>
#include <troupe/ps/pipeline/layer_profile.h>

namespace troupe::ps {

/// Layers [first, last) of a model that stay together: it can be cut before and behind them, and nowhere among them.
struct Piece {
  size_t first = 0, last = 0;
  std::string name;  ///< "conv1"; of several layers "group1_block1_conv1..group1_block1_bn2"
};

/// All layers, in order.
std::vector<Piece> pieces_of(const nn::Model& model);

/// By piece, what it costs as far as Model::work knows: multiply-adds instead of seconds, each half of the backward
/// pass as many as the forward pass.
std::vector<LayerCost> estimated_costs(const nn::Model& model);

/// By piece, what `troupe profile` measured. Rows that are not this model's pieces are an `invalid` error that names
/// the first of them.
Result<std::vector<LayerCost>> measured_costs(const nn::Model& model, const LayerProfile& profile);

}  // namespace troupe::ps
