#pragma once
#include <vector>

#include <troupe/ps/pipeline/schedule.h>

/// The forward and backward actions of one stage, one function a schedule. `shape` has sizes and placement, as checked
/// by make_schedule. Stages p, micro-batches m, stage i from 0.
namespace troupe::ps::orders {

using Order = std::vector<Action>;

/// F0 I0 W0 F1 I1 W1 ...
Order sequential(const Schedule& shape, uint32_t stage);
/// F0 F1 F2 I0 W0 I1 W1 I2 W2
Order gpipe(const Schedule& shape, uint32_t stage);
/// p-i-1 forwards to warm up, then one forward, one backward, then the backwards that are left.
Order one_forward_one_backward(const Schedule& shape, uint32_t stage);
/// The same over virtual micro-batches: p of them through one chunk, then the next; 2(p-i-1) + (v-1)p to warm up.
Order interleaved(const Schedule& shape, uint32_t stage);
/// `warm_up` forwards, then F I pairs with a W after each I but the first `delayed_weights`, whose W form the tail.
/// ZB-H1: p-i-1 and i. ZB-H2: 2(p-i-1) and 2i.
Order zero_bubble(const Schedule& shape, uint32_t stage, uint32_t warm_up, uint32_t delayed_weights);
/// Chunk 0 goes down the stages, chunk 1 back up. Each backward of chunk 1 makes room for a forward.
Order zero_bubble_v(const Schedule& shape, uint32_t stage);

/// `order` with all_reduce after every `interval`-th backward_weight of a chunk, and the steps as soon as all chunks of
/// the order are there.
Order with_steps(const Order& order, uint32_t interval);

}  // namespace troupe::ps::orders
