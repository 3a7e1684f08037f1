#include <troupe/kernels/nn/generate.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace troupe::nn {
namespace {

// Softmax of the largest `top_k` logits, drawn from.
int32_t draw(std::span<const float> logits, const GenerateOptions& options, Random& random) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto larger = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const size_t kept = options.top_k > 0 ? std::min(order.size(), static_cast<size_t>(options.top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(kept), order.end(), larger);
  if (options.temperature == 0) return order[0];
  order.resize(kept);
  std::vector<double> sums(kept);
  const double top = static_cast<double>(logits[static_cast<size_t>(order[0])]);
  double sum = 0;
  for (size_t i = 0; i < kept; ++i)
    sums[i] = sum += std::exp((static_cast<double>(logits[static_cast<size_t>(order[i])]) - top) / options.temperature);
  const double at = random.uniform() * sum;
  const auto found = std::ranges::upper_bound(sums, at);
  return order[std::min(static_cast<size_t>(found - sums.begin()), kept - 1)];
}

}  // namespace

void generate(const Model& model, std::span<const Tensor> weights, std::span<const int32_t> prompt,
              const GenerateOptions& options, int64_t vocabulary, Random& random,
              const std::function<bool(int32_t token)>& take) {
  TROUPE_CHECK(!prompt.empty() && options.temperature >= 0, prompt.size(), " tokens, temperature ",
               options.temperature);
  const auto context = static_cast<size_t>(model.input_shape()[0]);
  const int64_t logits_count = model.output_shape()[-1];
  const auto usable = static_cast<size_t>(vocabulary > 0 ? std::min(vocabulary, logits_count) : logits_count);
  std::vector<int32_t> seen(prompt.begin(), prompt.end());
  Stream stream;
  ModelContext pass;
  for (int64_t count = 0; count < options.tokens; ++count) {
    const std::span<const int32_t> last = std::span(seen).last(std::min(seen.size(), context));
    const auto length = static_cast<int64_t>(last.size());
    pass.begin(Tensor::from(last, {1, length}));
    model.forward({stream, ops::cpu_ops(), false, 0}, weights, 0, weights.size(), pass);
    const Tensor logits = pass.take_output();
    seen.push_back(draw(logits.span<float>().last(static_cast<size_t>(logits_count)).first(usable), options, random));
    if (!take(seen.back())) return;
  }
}

}  // namespace troupe::nn
