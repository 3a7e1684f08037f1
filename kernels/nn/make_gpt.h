#pragma once
#include <troupe/kernels/base/result.h>
#include <troupe/kernels/nn/model.h>
#include <troupe/kernels/nn/model_spec.h>

namespace troupe::nn {

/// A transformer that predicts the next token at every position of a sequence (Radford et al. 2019, "GPT-2"; its norms
/// before the branches):
///
///   tokens - embedding (+ positions) - dropout - block 1 - ... - block `layers` - norm - head
///
///   block:  --+- norm1 - qkv - attention - projection - dropout - add -+- norm2 - mlp1 - gelu - mlp2 - dropout - add -
///             \---------------------------------------------------/    \------------------------------------------/
///
/// One tensor [n, t, width] passes between blocks. Weights start normal with deviation 0.02, those of projection and
/// mlp2 with 0.02 / sqrt(2 layers), biases at 0. The head has no bias; tied, it has no layer of its own. With swiglu
/// mlp1 makes gates and values, 2 mlp_width(spec) in all.
///
/// Settings that fit neither each other nor the data are errors, told by `check_gpt`; `make_gpt` is for a spec that
/// passed.
Status check_gpt(const ModelSpec& spec);
Model make_gpt(const ModelSpec& spec);

}  // namespace troupe::nn
