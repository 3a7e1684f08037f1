#include <troupe/kernels/ops/cuda/named_ops.h>

#include <nvtx3/nvToolsExt.h>

#include <algorithm>

#include <troupe/kernels/ops/cuda/cuda_ops.h>
#include <troupe/kernels/tensor/cuda/cuda_stream.h>

namespace troupe::ops::cuda {
namespace {

class Range {
 public:
  Range(Stream& stream, const char* name) {
    troupe::cuda::cuda_stream(stream).begin_op(name);
    nvtxRangePushA(name);
  }
  ~Range() { nvtxRangePop(); }
  Range(const Range&) = delete;
};

/// A name as a template's argument.
template <size_t kSize>
struct Name {
  constexpr Name(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
  char text[kSize];
};

/// The function that `member` points to, within a range called `name`.
template <Name name, auto member>
struct Named;

template <Name name, class Family, class... Args, void (*Family::*member)(Stream&, Args...)>
struct Named<name, member> {
  static void call(Stream& stream, Args... args) {
    const Range range(stream, name.text);
    (cuda_ops().*member)(stream, static_cast<Args>(args)...);
  }
};

#define TROUPE_NAMED(op) Named<#op, &Ops::op>::call

Ops make() {
  Ops ops{};
  ops.gemm = TROUPE_NAMED(gemm);
  ops.linear = TROUPE_NAMED(linear);
  ops.bias_add = TROUPE_NAMED(bias_add);
  ops.bias_gradient = TROUPE_NAMED(bias_gradient);
  ops.relu = TROUPE_NAMED(relu);
  ops.relu_gradient = TROUPE_NAMED(relu_gradient);
  ops.gelu = TROUPE_NAMED(gelu);
  ops.gelu_gradient = TROUPE_NAMED(gelu_gradient);
  ops.conv = TROUPE_NAMED(conv);
  ops.conv_input_gradient = TROUPE_NAMED(conv_input_gradient);
  ops.conv_weight_gradient = TROUPE_NAMED(conv_weight_gradient);
  ops.max_pool = TROUPE_NAMED(max_pool);
  ops.max_pool_gradient = TROUPE_NAMED(max_pool_gradient);
  ops.avg_pool = TROUPE_NAMED(avg_pool);
  ops.avg_pool_gradient = TROUPE_NAMED(avg_pool_gradient);
  ops.global_avg_pool = TROUPE_NAMED(global_avg_pool);
  ops.global_avg_pool_gradient = TROUPE_NAMED(global_avg_pool_gradient);
  ops.softmax_cross_entropy = TROUPE_NAMED(softmax_cross_entropy);
  ops.softmax_cross_entropy_gradient = TROUPE_NAMED(softmax_cross_entropy_gradient);
  ops.layer_norm = TROUPE_NAMED(layer_norm);
  ops.layer_norm_input_gradient = TROUPE_NAMED(layer_norm_input_gradient);
  ops.layer_norm_weight_gradient = TROUPE_NAMED(layer_norm_weight_gradient);
  ops.batch_norm = TROUPE_NAMED(batch_norm);
  ops.batch_norm_inference = TROUPE_NAMED(batch_norm_inference);
  ops.batch_norm_gradient = TROUPE_NAMED(batch_norm_gradient);
  ops.dropout = TROUPE_NAMED(dropout);
  ops.embedding = TROUPE_NAMED(embedding);
  ops.embedding_gradient = TROUPE_NAMED(embedding_gradient);
  ops.sum = TROUPE_NAMED(sum);
  ops.sum_of_squares = TROUPE_NAMED(sum_of_squares);
  ops.count_non_finite = TROUPE_NAMED(count_non_finite);
  ops.fill = TROUPE_NAMED(fill);
  ops.copy = TROUPE_NAMED(copy);
  ops.add = TROUPE_NAMED(add);
  ops.scale = TROUPE_NAMED(scale);
  ops.axpy = TROUPE_NAMED(axpy);
  return ops;
}

#undef TROUPE_NAMED

}  // namespace

const Ops& named_cuda_ops() {
  static const Ops ops = make();
  return ops;
}

}  // namespace troupe::ops::cuda
