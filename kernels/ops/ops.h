#pragma once
#include <troupe/kernels/ops/activation.h>
#include <troupe/kernels/ops/attention.h>
#include <troupe/kernels/ops/batch_norm.h>
#include <troupe/kernels/ops/bias.h>
#include <troupe/kernels/ops/cast.h>
#include <troupe/kernels/ops/conv.h>
#include <troupe/kernels/ops/dropout.h>
#include <troupe/kernels/ops/elementwise.h>
#include <troupe/kernels/ops/embedding.h>
#include <troupe/kernels/ops/gemm.h>
#include <troupe/kernels/ops/layer_norm.h>
#include <troupe/kernels/ops/pool.h>
#include <troupe/kernels/ops/reduce.h>
#include <troupe/kernels/ops/rotary.h>
#include <troupe/kernels/ops/softmax.h>

namespace troupe::ops {

/// The arithmetic of one backend: a table of functions, one base a family, so that a backend can be a module
/// loaded at run time. Rules that hold for every function:
///
/// - Tensors are on the stream's device. The floating-point tensors of a call have one dtype, f32 or f64,
///   unless a contract says otherwise; labels and ids are i32. f64 is there to check gradients, not to be
///   fast.
/// - The caller allocates outputs with the shape in the contract and owns all tensors; nothing is kept.
///   A shape, dtype or device that does not fit is a bug: a CheckFailure that names the values.
/// - Outputs must not overlap inputs unless the contract says "may be".
/// - A batch of no samples is legal: activations are empty, gradients of parameters are 0 (with Write::add:
///   left alone). Gradients are sums over the samples, never divided by the batch.
/// - The same inputs with the same number of threads give the same bits.
/// - An empty tensor (`Tensor{}`) stands for "none" where the contract says "or none".
///
/// Shapes in contracts: n samples, c channels, h x w pixels; [m, n] is row-major with n running fastest.
struct Ops : GemmOps,
             BiasOps,
             ActivationOps,
             ConvOps,
             PoolOps,
             SoftmaxOps,
             LayerNormOps,
             BatchNormOps,
             DropoutOps,
             EmbeddingOps,
             ReduceOps,
             ElementwiseOps,
             AttentionOps,
             RotaryOps,
             CastOps {};

/// The CPU backend: the specification of every other one. Valid for the life of the program.
const Ops& cpu_ops();

}  // namespace troupe::ops
