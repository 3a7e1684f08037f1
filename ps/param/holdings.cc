#include <troupe/ps/param/holdings.h>

#include <algorithm>
#include <utility>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

bool same_placement(const Layout& a, const Layout& b) {
  const auto same = [](const Parcel& x, const Parcel& y) {
    return x.id == y.id && x.server == y.server && x.policy == y.policy && x.slices == y.slices;
  };
  return a.slices == b.slices && a.stages == b.stages && a.stage_of == b.stage_of &&
         std::ranges::equal(a.parcels, b.parcels, same);
}

}  // namespace

Status Holdings::check_change(const Membership& m) const {
  if (layout && !m.rebase && !same_placement(*layout, *m.layout))
    return fail(ErrorKind::invalid,
                cat("membership ", m.generation, " changes the layout but says no step to go on from"));
  if (!m.rebase) return {};
  for (const auto& [id, p] : parcels)
    if (!p.pending.empty())
      return fail(ErrorKind::invalid, cat("membership ", m.generation, " rebases to step ", *m.rebase, " while parcel ",
                                          id, " holds ", p.pending.size(), " contributions to step ", p.version));
  return {};
}

void Holdings::take_over(const Membership& m, const ShardOptions& options, const Shard::InitialState& initial) {
  const bool other_placement = !layout || !same_placement(*layout, *m.layout);
  layout = m.layout;
  if (other_placement) hold_layout(options, initial);
  seat(m.workers);
  if (m.rebase) rebase(*m.rebase);
}

void Holdings::hold_layout(const ShardOptions& options, const Shard::InitialState& initial) {
  const ServerId server = options.self.index;
  auto before = std::exchange(slices, {});
  for (const Slice& slice : layout->slices) {
    if (slice.server != server) continue;
    const auto kept = before.find(slice.id);
    if (kept != before.end() && kept->second.slice() == slice)
      slices.emplace(slice.id, std::move(kept->second));
    else
      slices.emplace(slice.id, HeldSlice(*layout, slice, initial(slice), *options.optimizer, options.device));
  }
  parcels.clear();
  places.clear();
  for (const Parcel& parcel : layout->parcels) {
    if (parcel.server != server) continue;
    parcels[parcel.id];
    for (size_t i = 0; i < parcel.slices.size(); ++i) places[parcel.slices[i]] = {parcel.id, i};
  }
}

// A new incarnation starts its sequence again and repeats its step: only its clocks stay.
void Holdings::seat(const std::vector<Incarnation>& incarnations) {
  workers.resize(incarnations.size());
  for (auto& [id, p] : parcels) {
    p.clock.resize(workers.size());
    p.reads.resize(workers.size());
    std::erase_if(p.waiting, [&](const auto& pull) { return pull.first >= workers.size(); });
  }
  for (WorkerId w = 0; w < workers.size(); ++w) {
    const bool replaced = workers[w].incarnation != incarnations[w];
    if (replaced) workers[w] = {incarnations[w]};
    for (auto& [id, p] : parcels) {
      p.clock.set_present(w, incarnations[w] != 0 && layout->contributes(w, layout->parcels[id]));
      if (replaced) p.waiting.erase(w), p.reads[w] = {};
    }
  }
}

void Holdings::rebase(Step step) {
  for (auto& [id, p] : parcels) {
    p.clock.rebase(step);
    p.version = step;
    p.previous.clear();
    p.before.reset();
  }
}

std::vector<SliceState> Holdings::state() const {
  std::vector<SliceState> all;
  for (const auto& [id, slice] : slices) all.push_back(slice.state());
  return all;
}

}  // namespace troupe::ps
