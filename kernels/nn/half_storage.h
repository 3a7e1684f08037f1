#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// Mixed precision: where `Pass::storage` is f16 or bf16, what lies between the nodes of a model, and what a node keeps
/// for its backward half, is held in 16 bits. Layers compute in f32 as ever: a tensor is widened before a node reads it
/// and rounded (to nearest, ties to even) once behind the node that made it. These are the points where rounding
/// happens, the same ones however a model is cut into parts:
///
///   the model's input, if it is f32            every node's output but the model's own (its logits stay f32)
///   d loss / d logits, d loss / d any output   what a node keeps (inputs, what went into a gelu, d loss / d z)
///   weights as a node reads them (Layer::reads_masters: as they are)
///
/// Statistics of rows, channels and attention, sums of weight gradients, and the loss are f32 (the loss f64).
/// With f32 storage, and for tensors that are not f32, all functions here hand their argument on.
inline bool halves(const Pass& pass) { return pass.storage != DType::f32; }

/// x as it is kept. What is stored is never written again.
Tensor stored(const Pass&, const Tensor& x);
/// x as layers compute with it: memory of its own, where it was stored in 16 bits.
Tensor loaded(const Pass&, const Tensor& x);

/// What a node computes with for its master weights.
Tensor weights_for(const Pass&, const Layer&, const Tensor& masters);

/// Behind a node's forward half, which read `x`, kept as `kept`, and gave `y`: y as it is kept, and the context
/// likewise. `is_output`: y is the model's.
Tensor store_forward(const Pass&, const Tensor& x, const Tensor& kept, Tensor y, bool is_output, LayerContext&);
/// The context as a layer reads it.
LayerContext loaded(const Pass&, const LayerContext&);

}  // namespace troupe::nn
