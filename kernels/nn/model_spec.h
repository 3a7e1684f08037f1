#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/kernels/tensor/shape.h>

namespace troupe::nn {

/// What `[model]` says, with the sizes of the data filled in. The layers it stands for are built, and the
/// numbers checked, by `nn::make_model`.
struct ModelSpec {
  /// mlp:    hidden layers of `hidden` units with `activation` between, then `classes` logits; layers fc1, fc2, ...
  /// cnn:    a conv `kernel`x`kernel` (same padding) + activation + 2x2 max pool for each of `channels`, then the
  ///         MLP of `hidden`; layers conv1, conv2, ..., fc1, fc2, ...
  /// resnet: a stem conv, then for each of `channels` a group of `blocks[i]` residual blocks (two 3x3 convs with
  ///         batch norm; the first block of every group but the first halves the size), global average pool,
  ///         logits; layers stem, stem_bn, group1_block1_conv1, ..., fc
  std::string kind = "mlp";
  Shape input;                 ///< of one sample: [784] or [channels, height, width]
  int64_t classes = 10;
  std::vector<int64_t> hidden;
  std::vector<int64_t> channels;
  std::vector<int64_t> blocks;
  int64_t kernel = 3;
  std::string activation = "relu";  ///< relu | gelu
  double dropout = 0;               ///< before every fully connected layer but the first; resnet: before its only one
  bool batch_norm = false;          ///< cnn: after every conv; mlp: layer norm is `layer_norm`
  bool layer_norm = false;          ///< mlp: after every hidden layer
};

}  // namespace troupe::nn
