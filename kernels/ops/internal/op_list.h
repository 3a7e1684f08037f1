#pragma once
#include <cstddef>

#include <troupe/kernels/ops/ops.h>
#include <troupe/kernels/ops/update.h>

/// DO(name) for every op, for tables that are made from another table.
#define TROUPE_EACH_OP(DO)                                                                              \
  DO(gemm) DO(linear) DO(bias_add) DO(bias_gradient) DO(relu) DO(relu_gradient) DO(gelu)                \
  DO(gelu_gradient) DO(conv) DO(conv_input_gradient) DO(conv_weight_gradient) DO(max_pool)              \
  DO(max_pool_gradient) DO(avg_pool) DO(avg_pool_gradient) DO(global_avg_pool)                          \
  DO(global_avg_pool_gradient) DO(softmax_cross_entropy) DO(softmax_cross_entropy_gradient)             \
  DO(layer_norm) DO(layer_norm_input_gradient) DO(layer_norm_weight_gradient) DO(batch_norm)            \
  DO(batch_norm_inference) DO(batch_norm_gradient) DO(dropout) DO(embedding) DO(embedding_gradient)     \
  DO(sum) DO(sum_of_squares) DO(count_non_finite) DO(fill) DO(copy) DO(add) DO(scale) DO(axpy)          \
  DO(gelu_tanh) DO(gelu_tanh_gradient) DO(swiglu) DO(swiglu_gradient) DO(attention)                     \
  DO(attention_gradient) DO(rotary) DO(rotary_gradient) DO(cast) DO(bias_gelu_gradient)

#define TROUPE_EACH_UPDATE_OP(DO) DO(sgd) DO(momentum) DO(adam) DO(adagrad) DO(rmsprop) DO(lamb)

namespace troupe::ops {

#define TROUPE_COUNT_OP(op) +1
static_assert(sizeof(Ops) == (0 TROUPE_EACH_OP(TROUPE_COUNT_OP)) * sizeof(void (*)()), "an op is missing above");
static_assert(sizeof(UpdateOps) == (0 TROUPE_EACH_UPDATE_OP(TROUPE_COUNT_OP)) * sizeof(void (*)()), "an op is missing");
#undef TROUPE_COUNT_OP

}  // namespace troupe::ops
