#pragma once
#include <vector>

#include <troupe/ps/param/shard_image.h>

namespace troupe::ps {

/// A shard that holds these slices of an older time, while its workers have gone on: worker w's next step is
/// `next_steps[w]`, and whatever it pushes of earlier steps is acknowledged without effect, since some of it is lost in
/// any case. A parcel that aggregates takes part again from the furthest of those steps on, all workers together.
/// `slices` are the server's under the membership's layout, ascending.
ShardImage reloaded_image(const Membership& membership, ServerId server, std::vector<SliceState> slices,
                          const std::vector<Step>& next_steps);

}  // namespace troupe::ps
