#include <troupe/ps/pipeline/composition.h>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {

std::string composition_text(const Composition& c) {
  std::string text = cat(c.replicas, " x ", c.stages, " x ", c.tensor, ", ", c.schedule);
  if (c.chunks > 1) text += cat(" with ", c.chunks, " chunks");
  text += cat(", ", c.micro_batches, " micro-batches of ", c.micro_batch);
  if (c.recompute != Recompute::none)
    text += c.recompute == Recompute::full ? ", full recomputation" : ", attention recomputed";
  if (c.sequence_parallel) text += ", sequence parallel";
  if (c.zero > 0) text += cat(", ZeRO-", c.zero);
  return text;
}

}  // namespace troupe::ps
