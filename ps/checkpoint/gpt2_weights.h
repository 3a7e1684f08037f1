#pragma once
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/nn/gradient_source.h>
#include <troupe/ps/checkpoint/file_ops.h>

namespace troupe::ps {

/// The parameters of a gpt model (nn::make_gpt) from a safetensors file in the layout in which Hugging Face publishes
/// GPT-2: by layer, LayerSpec::count floats each.
///
///   embedding           wte.weight                   blockN_norm2    h.(N-1).ln_2
///   positions           wpe.weight                   blockN_mlp1     h.(N-1).mlp.c_fc
///   blockN_norm1        h.(N-1).ln_1                 blockN_mlp2     h.(N-1).mlp.c_proj
///   blockN_qkv          h.(N-1).attn.c_attn          norm            ln_f
///   blockN_projection   h.(N-1).attn.c_proj          head            lm_head, or wte where the file has none
///
/// with or without "transformer." before each name. Weights of the four linear layers lie [inputs, outputs] there and
/// are transposed. Of wpe.weight the first rows are taken where the model's context is shorter. Tensors that the model
/// has no use for (masks) are passed over; one that is missing, of another shape or not F32 is ErrorKind::invalid and
/// named.
Result<std::vector<Tensor>> read_gpt2_weights(FileOps& files, const std::string& path,
                                              const std::vector<LayerSpec>& layers);

}  // namespace troupe::ps
