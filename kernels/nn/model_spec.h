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
  /// resnet: a stem, then for each of `channels` a group of `blocks[i]` residual blocks (the first block of every group
  ///         but the first halves the size), global average pool, logits; layers stem, stem_bn, group1_block1_conv1,
  ///         ..., fc. Blocks of convs with batch norm: `block` "basic" is 3x3, 3x3 of channels[i]; "bottleneck" 1x1,
  ///         3x3 of channels[i] and 1x1 of 4 channels[i]. `stem` "small" is a 3x3 conv; "large" a 7x7 conv and a 3x3
  ///         max pool, each of which halves the size (He et al. 2015; the stride is in the 3x3 conv, as in PyTorch's)
  /// gpt:    token embedding (+ learned positions), `layers` pre-norm blocks, a last norm, logits for `classes` tokens
  ///         at every position (Radford et al. 2019); layers embedding, positions, block1_norm1, block1_qkv,
  ///         block1_projection, block1_norm2, block1_mlp1, block1_mlp2, ..., norm, head
  std::string kind = "mlp";
  Shape input;           ///< of one sample: [784], [channels, height, width], or [positions] for gpt
  int64_t classes = 10;  ///< gpt: the vocabulary
  std::vector<int64_t> hidden;
  std::vector<int64_t> channels;
  std::vector<int64_t> blocks;
  std::string block = "basic";  ///< resnet: basic | bottleneck
  std::string stem = "small";   ///< resnet: small | large
  int64_t kernel = 3;
  std::string activation = "relu";  ///< relu | gelu
  /// Before every fully connected layer but the first; resnet: before its only one; gpt: after the embedding, and of
  /// what attention and MLP add.
  double dropout = 0;
  bool batch_norm = false;          ///< cnn: after every conv; mlp: layer norm is `layer_norm`
  bool layer_norm = false;          ///< mlp: after every hidden layer
  // gpt:
  int64_t layers = 4;                ///< blocks of attention and MLP
  int64_t heads = 4;                 ///< of attention, width / heads numbers each
  int64_t width = 128;               ///< numbers a position
  int64_t context = 128;             ///< most positions of a sequence
  std::string positions = "learned";  ///< learned | rotary
  std::string mlp = "gelu";           ///< gelu | gelu_tanh | swiglu
  bool tied = true;                   ///< the head's weight is the embedding's
  bool sparse_embedding = false;      ///< not tied: the embedding is by rows (LayerSpec::row_width)
  /// Which activations are not kept for the backward pass but made again: none; full: all within a block; every_n: all
  /// within `recompute_every` blocks together.
  std::string recompute = "none";
  int64_t recompute_every = 2;
};

/// Units of a gpt block's MLP: 4 width; swiglu, which has three matrices, 8/3 width rounded up to a multiple of 32, so
/// that both have about as many parameters.
inline int64_t mlp_width(const ModelSpec& spec) {
  return spec.mlp == "swiglu" ? ((8 * spec.width + 2) / 3 + 31) / 32 * 32 : 4 * spec.width;
}

}  // namespace troupe::nn
