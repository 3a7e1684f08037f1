#include <troupe/kernels/ops/cuda/cuda_ops.h>
#include <troupe/kernels/ops/cuda/families.h>

namespace troupe::ops {

const Ops& cuda_ops() {
  static const Ops ops{cuda::gemm_ops(),      cuda::bias_ops(),      cuda::activation_ops(), cuda::conv_ops(),
                       cuda::pool_ops(),      cuda::softmax_ops(),   cuda::layer_norm_ops(), cuda::batch_norm_ops(),
                       cuda::dropout_ops(),   cuda::embedding_ops(), cuda::reduce_ops(),     cuda::elementwise_ops(),
                       cuda::attention_ops(), cuda::rotary_ops(),    cuda::cast_ops()};
  return ops;
}

}  // namespace troupe::ops
