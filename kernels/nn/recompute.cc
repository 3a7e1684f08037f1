#include <troupe/kernels/nn/recompute.h>

#include <algorithm>

namespace troupe::nn {

Status check_recompute(const ModelSpec& spec) {
  if (spec.recompute != "none" && spec.recompute != "full" && spec.recompute != "every_n")
    return fail(ErrorKind::invalid,
                cat("model.recompute is \"", spec.recompute, "\"; it must be \"none\", \"full\" or \"every_n\""));
  if (spec.recompute_every < 1)
    return fail(ErrorKind::invalid, cat("model.recompute_every is ", spec.recompute_every, "; it must be 1 or more"));
  return {};
}

void recompute_blocks(const ModelSpec& spec, const std::vector<int>& ends, Model& model) {
  if (spec.recompute == "none") return;
  const size_t blocks = ends.size() - 1;
  const size_t together = spec.recompute == "full" ? 1 : static_cast<size_t>(spec.recompute_every);
  for (size_t first = 0; first < blocks; first += together)
    model.recompute(ends[first], ends[std::min(first + together, blocks)]);
}

}  // namespace troupe::nn
