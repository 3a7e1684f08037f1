#include <troupe/ps/param/reloaded_image.h>

#include <algorithm>

namespace troupe::ps {

ShardImage reloaded_image(const Membership& membership, ServerId server, std::vector<SliceState> slices,
                          const std::vector<Step>& next_steps) {
  const size_t workers = membership.workers.size();
  const Step furthest = next_steps.empty() ? 0 : *std::ranges::max_element(next_steps);
  ShardImage image;
  image.membership = membership;
  image.workers.resize(workers);  // whatever their next sequences are: windows begin anywhere
  for (const Parcel& parcel : membership.layout->parcels) {
    if (parcel.server != server) continue;
    ShardImage::Parcel& p = image.parcels.emplace_back();
    p.id = parcel.id;
    p.version = furthest;
    p.clock = parcel.policy.aggregates() ? std::vector<Step>(workers, furthest) : next_steps;
    p.reads.resize(workers);
    for (const SliceState& s : slices)
      if (std::ranges::find(parcel.slices, s.slice) != parcel.slices.end()) p.updates = std::max(p.updates, s.updates);
  }
  image.slices = std::move(slices);
  return image;
}

}  // namespace troupe::ps
