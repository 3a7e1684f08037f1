#pragma once
#include <troupe/kernels/ops/ops.h>

namespace troupe::ops::cuda {

/// The tables that make up `cuda_ops`, each defined in the file of its family (gemm_cublas.cu for the first). Products
/// leave Stream::scratch alone: convolutions keep their matrices there.
GemmOps gemm_ops();
BiasOps bias_ops();
ActivationOps activation_ops();
ConvOps conv_ops();  ///< conv_choice.h
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

}  // namespace troupe::ops::cuda
