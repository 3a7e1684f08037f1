#pragma once
#include <troupe/kernels/ops/ops.h>

namespace troupe::ops::cpu {

/// The tables that make up `cpu_ops`, each defined in the file of its family.
GemmOps gemm_ops();
BiasOps bias_ops();
ActivationOps activation_ops();
ConvOps conv_ops();
PoolOps pool_ops();
SoftmaxOps softmax_ops();
LayerNormOps layer_norm_ops();
BatchNormOps batch_norm_ops();
DropoutOps dropout_ops();
EmbeddingOps embedding_ops();
ReduceOps reduce_ops();
ElementwiseOps elementwise_ops();
AttentionOps attention_ops();
RotaryOps rotary_ops();
CastOps cast_ops();

}  // namespace troupe::ops::cpu
