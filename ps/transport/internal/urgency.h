#pragma once
#include <cstdint>

#include <troupe/ps/messages.h>

namespace troupe::ps {

/// Which of the messages that wait for one peer goes first: the lowest. Whatever carries no tensors is control and
/// has 0. Then come parcels in their order, which is that of the layers (make_layout), because the next forward
/// pass needs low layers first; an activation, for which a neighbour waits in this step, is as urgent as the first of
/// them. Images and snapshots, which nobody computes with, come last.
uint32_t urgency_of(const Message& message);

}  // namespace troupe::ps
