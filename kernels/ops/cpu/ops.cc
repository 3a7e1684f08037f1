#include <troupe/kernels/ops/cpu/families.h>

namespace troupe::ops {

const Ops& cpu_ops() {
  static const Ops ops{cpu::gemm_ops(),       cpu::bias_ops(),       cpu::activation_ops(),
                       cpu::conv_ops(),       cpu::pool_ops(),       cpu::softmax_ops(),
                       cpu::layer_norm_ops(), cpu::batch_norm_ops(), cpu::dropout_ops(),
                       cpu::embedding_ops(),  cpu::reduce_ops(),     cpu::elementwise_ops(),
                       cpu::attention_ops(),  cpu::rotary_ops(),     cpu::cast_ops()};
  return ops;
}

}  // namespace troupe::ops
