#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <troupe/kernels/base/random.h>
#include <troupe/kernels/nn/model.h>

namespace troupe::nn {

struct GenerateOptions {
  int64_t tokens = 200;     ///< how many
  double temperature = 0.8;  ///< logits are divided by it; 0: always the likeliest token
  int64_t top_k = 40;        ///< only so many of the likeliest tokens are drawn from; 0: all
};

/// Continues a row of tokens with a model whose output is logits for the next token at every position, as make_gpt's
/// is. Calls `take` with one token after the other; it returns false to end there. `prompt` holds at least one token,
/// each below the vocabulary; what lies further back than the model's context is not seen. A token costs a forward
/// pass over what is seen. Tokens of `vocabulary` and above are never drawn (0: all may be): a padded head has no text
/// for them.
///
/// The same seed of `random` gives the same tokens.
void generate(const Model& model, std::span<const Tensor> weights, std::span<const int32_t> prompt,
              const GenerateOptions& options, int64_t vocabulary, Random& random,
              const std::function<bool(int32_t token)>& take);

}  // namespace troupe::nn
