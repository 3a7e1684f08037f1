#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/ps/messages.h>

/// Layers by rows in a simulated run, for an oracle that thinks of whole layers.
namespace troupe::sim {

/// In place of what was not read: agrees with everything.
inline constexpr float kUnread = 1e30f;

/// The rows of layer `layer` that a step names: at least one, a function of its work_seed.
Tensor step_rows(uint64_t work_seed, ps::LayerId layer, const LayerSpec& spec);

/// All elements [begin, end) of a layer by rows, of which `values` are those of `rows`; others are `rest`.
Tensor whole_of(const Tensor& rows, const Tensor& values, int64_t begin, int64_t end, int64_t width, float rest);

/// The same of a push or an answer to a pull of `rows`, which loses its rows.
ps::Push whole_of(ps::Push push, const ps::Layout& layout);
ps::PullReply whole_of(ps::PullReply reply, const Tensor& rows, const ps::Layout& layout);

}  // namespace troupe::sim
