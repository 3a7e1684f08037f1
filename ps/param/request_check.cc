#include <troupe/ps/param/request_check.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/param/combined_push.h>
#include <troupe/ps/param/rows.h>

namespace troupe::ps {
namespace {

// Counts above these are no honest worker's, and sums of them stay far from overflow.
constexpr int64_t kMaxSamples = int64_t{1} << 40;
constexpr Step kMaxStep = int64_t{1} << 48;

template <class... Args>
Status malformed(const Args&... args) {
  return fail(ErrorKind::invalid, cat(args...));
}

Status check_floats(const Tensor& tensor, int64_t count, const char* what) {
  if (!tensor) return malformed(what, " is empty, expected ", count, " F32");
  if (tensor.dtype() != DType::f32 || tensor.count() != count)
    return malformed(what, " is ", name_of(tensor.dtype()), " ", tensor.shape(), ", expected ", count, " F32");
  if (tensor.device() != Device{}) return malformed(what, " is not in CPU memory");
  if (tensor.offset_bytes() % sizeof(float) != 0) return malformed(what, " starts at byte ", tensor.offset_bytes());
  return {};
}

// Ascending, each once, all in the slice: so no more than it has.
Status check_rows(const Tensor& rows, const Slice& slice, int64_t width) {
  if (rows.dtype() != DType::i32 || rows.shape().dims() != 1 || rows.device() != Device{} ||
      rows.offset_bytes() % sizeof(int32_t) != 0)
    return malformed("row numbers are ", name_of(rows.dtype()), " ", rows.shape(), ", expected I32 of one dimension");
  int64_t least = slice.begin / width;
  for (const int32_t row : rows.span<int32_t>()) {
    if (row < least || row >= slice.end / width)
      return malformed("row ", row, " after row ", least - 1, " of slice ", slice.id, ", which has rows ",
                       slice.begin / width, " to ", slice.end / width - 1, "; they must ascend");
    least = int64_t{row} + 1;
  }
  return {};
}

Status check_row_gradients(const Tensor& rows, const std::vector<Tensor>& gradients, const Layout& layout,
                           const Parcel& parcel) {
  const Slice& slice = layout.slices[parcel.slices.front()];
  const int64_t width = layout.layers[slice.layer].row_width;
  if (!rows) return malformed("parcel ", parcel.id, " is by rows, and the push names none");
  TROUPE_TRY(check_rows(rows, slice, width));
  if (gradients.size() != 1) return malformed(gradients.size(), " gradients of rows, expected 1");
  return check_floats(gradients.front(), rows.count() * width, "gradient");
}

Status check_parcel(ParcelId id, const Layout& layout, ServerId server) {
  if (id >= layout.parcels.size()) return malformed("parcel ", id, " of ", layout.parcels.size());
  if (layout.parcels[id].server != server)
    return malformed("parcel ", id, " is server ", layout.parcels[id].server, "'s, not server ", server, "'s");
  return {};
}

// Shape::count() of a foreign shape might overflow.
bool add_count(const Shape& shape, int64_t& sum) {
  int64_t count = 1;
  for (const int64_t n : shape.span())
    if (__builtin_mul_overflow(count, n, &count)) return false;
  return !__builtin_add_overflow(sum, count, &sum);
}

Status check_step(Step step, const char* what) {
  if (step < 0 || step > kMaxStep) return malformed(what, " ", step, " cannot be");
  return {};
}

Status check_state(const SliceState& s, const Slice& slice, size_t states) {
  TROUPE_TRY(check_floats(s.values, slice.count(), "parameters"));
  if (s.state.size() != states || s.updates < 0)
    return malformed(s.state.size(), " state vectors of ", states, ", ", s.updates, " updates");
  for (const Tensor& t : s.state) TROUPE_TRY(check_floats(t, slice.count(), "state"));
  return {};
}

/// One tensor a slice of the parcel.
Status check_parcel_floats(const std::vector<Tensor>& tensors, const Layout& layout, ParcelId id, const char* what) {
  const auto& slices = layout.parcels[id].slices;
  if (tensors.size() != slices.size())
    return malformed(tensors.size(), " tensors of ", what, ", parcel ", id, " has ", slices.size(), " slices");
  for (size_t i = 0; i < slices.size(); ++i)
    TROUPE_TRY(check_floats(tensors[i], layout.slices[slices[i]].count(), what));
  return {};
}

template <class Part, class Key>
bool ascending(const std::vector<Part>& parts, const Key& key) {
  for (size_t i = 1; i < parts.size(); ++i)
    if (!(key(parts[i - 1]) < key(parts[i]))) return false;
  return true;
}

Status check_image_worker(const ShardImage::Worker& worker) {
  const auto itself = [](Sequence s) { return s; };
  if (!ascending(worker.above, itself) || (!worker.above.empty() && worker.above.front() <= worker.high_water))
    return malformed("sequences above ", worker.high_water, " are not");
  return {};
}

Status check_image_parcel(const ShardImage::Parcel& p, const Layout& layout, ServerId server, size_t workers) {
  TROUPE_TRY(check_parcel(p.id, layout, server));
  if (p.clock.size() != workers || p.reads.size() != workers)
    return malformed("parcel ", p.id, " has ", p.clock.size(), " clocks and ", p.reads.size(), " reads of ", workers,
                     " workers");
  for (const Step step : p.clock) TROUPE_TRY(check_step(step, "clock"));
  TROUPE_TRY(check_step(p.version, "version"));
  if (!p.previous.empty()) TROUPE_TRY(check_parcel_floats(p.previous, layout, p.id, "previous parameters"));
  if (!p.pending.empty() && !layout.parcels[p.id].policy.aggregates())
    return malformed("parcel ", p.id, " collects contributions under ", describe(layout.parcels[p.id].policy));
  if (!ascending(p.pending, [](const auto& part) { return part.worker; }))
    return malformed("contributions to parcel ", p.id, " are not in worker order");
  for (const ShardImage::Parcel::Part& part : p.pending) {
    if (part.worker >= workers || part.samples < 0 || part.samples > kMaxSamples)
      return malformed("worker ", part.worker, " of ", workers, " contributes ", part.samples, " samples");
    TROUPE_TRY(check_step(part.schedule_step, "schedule step"));
    if (part.samples == 0) continue;
    if (by_rows(layout, layout.parcels[p.id]))
      TROUPE_TRY(check_row_gradients(part.rows, part.gradients, layout, layout.parcels[p.id]));
    else
      TROUPE_TRY(check_parcel_floats(part.gradients, layout, p.id, "gradient"));
  }
  return {};
}

}  // namespace

Status check_layout(const Layout& layout) {
  if (layout.policies.size() != layout.layers.size())
    return malformed(layout.policies.size(), " policies for ", layout.layers.size(), " layers");
  TROUPE_TRY(check_by_rows(layout.layers, layout.policies, layout.stages));
  for (const LayerSpec& layer : layout.layers) {
    int64_t at = 0;
    for (const ParamSpec& param : layer.params) {
      if (param.offset != at) return malformed("tensor ", param.name, " is at ", param.offset, ", not ", at);
      if (!add_count(param.shape, at)) return malformed("tensor ", param.name, " has impossible shape ", param.shape);
    }
    if (at != layer.count) return malformed("layer ", layer.name, " has ", layer.count, " elements, tensors of ", at);
  }
  for (size_t i = 0; i < layout.slices.size(); ++i) {
    const Slice& s = layout.slices[i];
    if (s.id != i || s.layer >= layout.layers.size() || s.server >= layout.servers)
      return malformed("slice ", i, " says id ", s.id, ", layer ", s.layer, ", server ", s.server);
    if (s.begin < 0 || s.begin >= s.end || s.end > layout.layers[s.layer].count)
      return malformed("slice ", i, " is [", s.begin, ", ", s.end, ") of ", layout.layers[s.layer].count);
    const int64_t width = layout.layers[s.layer].row_width;
    if (width > 0 && (s.begin % width != 0 || s.end % width != 0))
      return malformed("slice ", i, " is [", s.begin, ", ", s.end, "), which cuts rows of ", width);
  }
  if (layout.stage_of.empty() ? layout.stages != 1 : layout.stage_of.size() != layout.layers.size())
    return malformed(layout.stages, " stages, given for ", layout.stage_of.size(), " of ", layout.layers.size(),
                     " layers");
  for (uint32_t stage : layout.stage_of)
    if (stage >= layout.stages) return malformed("a layer of stage ", stage, " of ", layout.stages);
  std::vector<int> times(layout.slices.size(), 0);
  for (size_t i = 0; i < layout.parcels.size(); ++i) {
    const Parcel& p = layout.parcels[i];
    if (p.id != i || p.slices.empty())
      return malformed("parcel ", i, " says id ", p.id, ", ", p.slices.size(), " slices");
    if (p.slices.size() > 1 && std::ranges::any_of(p.slices, [&](SliceId s) {
          return s < layout.slices.size() && by_rows(layout.layers[layout.slices[s].layer]);
        }))
      return malformed("parcel ", i, " holds ", p.slices.size(), " slices, one of them by rows");
    for (SliceId s : p.slices)
      if (s >= layout.slices.size() || layout.slices[s].server != p.server || ++times[s] != 1 ||
          layout.policies[layout.slices[s].layer] != p.policy ||
          layout.stage_of_layer(layout.slices[s].layer) != layout.stage_of_parcel(p))
        return malformed("slice ", s, " does not belong to parcel ", i);
  }
  for (size_t i = 0; i < times.size(); ++i)
    if (times[i] == 0) return malformed("slice ", i, " is in no parcel");
  return {};
}

Status check_membership(const Membership& m) {
  if (!m.layout) return malformed("membership ", m.generation, " has no layout");
  if (m.rebase) TROUPE_TRY(check_step(*m.rebase, "rebase to step"));
  return check_layout(*m.layout);
}

Status check_push(const Push& push, const Layout& layout, ServerId server) {
  TROUPE_TRY(check_parcel(push.parcel, layout, server));
  const Parcel& parcel = layout.parcels[push.parcel];
  if (parcel.policy.mode == Mode::all_reduce) return malformed("parcel ", push.parcel, " is all-reduced: no pushes");
  if (push.sequence == 0) return malformed("sequence 0; they count from 1");
  TROUPE_TRY(check_step(push.step, "step"));
  TROUPE_TRY(check_step(push.schedule_step, "schedule step"));
  if (push.samples < 0 || push.samples > kMaxSamples) return malformed(push.samples, " samples cannot be");
  if (!std::isfinite(push.scale) || push.scale < 0) return malformed("scale ", push.scale, " cannot be");
  if (by_rows(layout, parcel) && push.samples > 0)
    return check_row_gradients(push.rows, push.gradients, layout, parcel);
  if (push.rows) return malformed("rows of parcel ", push.parcel, ", which takes none over ", push.samples, " samples");
  const size_t expected = push.samples > 0 ? parcel.slices.size() : 0;
  if (push.gradients.size() != expected && covered_by(push, parcel.slices.size()).empty())
    return malformed(push.gradients.size(), " gradients over ", push.samples, " samples, expected ", expected);
  for (size_t i = 0; i < expected; ++i)
    TROUPE_TRY(check_floats(push.gradients[i], layout.slices[parcel.slices[i]].count(), "gradient"));
  return {};
}

Status check_pull(const Pull& pull, const Layout& layout, ServerId server) {
  TROUPE_TRY(check_parcel(pull.parcel, layout, server));
  if (const Parcel& parcel = layout.parcels[pull.parcel]; pull.rows) {
    const Slice& slice = layout.slices[parcel.slices.front()];
    if (!by_rows(layout, parcel)) return malformed("rows of parcel ", pull.parcel, ", which has none");
    TROUPE_TRY(check_rows(pull.rows, slice, layout.layers[slice.layer].row_width));
  }
  return check_step(pull.step, "step");
}

Status check_install(const Install& install, const Layout& layout, ServerId server, size_t states) {
  for (const SliceState& s : install.slices) {
    if (s.slice >= layout.slices.size() || layout.slices[s.slice].server != server)
      return malformed("slice ", s.slice, " is not server ", server, "'s");
    const Slice& slice = layout.slices[s.slice];
    if (layout.policies[slice.layer].mode != Mode::all_reduce)
      return malformed("slice ", s.slice, " is under ", describe(layout.policies[slice.layer]),
                       ": only all-reduced ones are installed");
    TROUPE_TRY(check_state(s, slice, states));
  }
  return {};
}

Status check_pull_reply(const PullReply& reply, const Pull& pull, const Layout& layout) {
  if (reply.parcel >= layout.parcels.size()) return fail(ErrorKind::invalid, cat("there is no parcel ", reply.parcel));
  const Parcel& parcel = layout.parcels[reply.parcel];
  const auto fits = [&](const Tensor& values, const Slice& slice) {
    const int64_t count = pull.rows ? pull.rows.count() * layout.layers[slice.layer].row_width : slice.count();
    return values && values.dtype() == DType::f32 && values.count() == count;
  };
  const bool all_reduced = parcel.policy.mode == Mode::all_reduce;
  if (reply.values.size() != parcel.slices.size() || (all_reduced && reply.state.size() != parcel.slices.size()))
    return fail(ErrorKind::invalid, cat("parcel ", reply.parcel, " has ", parcel.slices.size(), " slices, the answer ",
                                        reply.values.size(), " values and ", reply.state.size(), " states"));
  for (size_t i = 0; i < parcel.slices.size(); ++i) {
    const Slice& slice = layout.slices[parcel.slices[i]];
    bool good = fits(reply.values[i], slice);
    if (all_reduced)
      for (const Tensor& vector : reply.state[i].state) good = good && fits(vector, slice);
    if (!good)
      return malformed("the answer's slice ", slice.id, " is not of ",
                       pull.rows ? cat("the ", pull.rows.count(), " rows asked for") : cat(slice.count(), " floats"));
  }
  return {};
}

Status check_image(const ShardImage& image, ServerId server, size_t states) {
  TROUPE_TRY(check_membership(image.membership));
  const Layout& layout = *image.membership.layout;
  const size_t workers = image.membership.workers.size();
  if (image.workers.size() != workers)
    return malformed("an image of ", image.workers.size(), " workers under a membership of ", workers);
  for (const ShardImage::Worker& worker : image.workers) TROUPE_TRY(check_image_worker(worker));

  const auto here = [server](const auto& part) { return part.server == server; };
  const auto id_of = [](const auto& part) { return part.id; };
  if (!ascending(image.parcels, id_of) || std::ssize(image.parcels) != std::ranges::count_if(layout.parcels, here))
    return malformed("an image of ", image.parcels.size(), " parcels, server ", server, " has others");
  for (const ShardImage::Parcel& p : image.parcels)
    TROUPE_TRY(check_image_parcel(p, layout, server, workers));

  if (!ascending(image.slices, [](const SliceState& s) { return s.slice; }) ||
      std::ssize(image.slices) != std::ranges::count_if(layout.slices, here))
    return malformed("an image of ", image.slices.size(), " slices, server ", server, " has others");
  for (const SliceState& s : image.slices) {
    if (s.slice >= layout.slices.size() || layout.slices[s.slice].server != server)
      return malformed("slice ", s.slice, " is not server ", server, "'s");
    TROUPE_TRY(check_state(s, layout.slices[s.slice], states));
  }
  for (const LayerCounters& counters : image.counters)
    if (counters.layer >= layout.layers.size()) return malformed("counters of layer ", counters.layer);
  return {};
}

}  // namespace troupe::ps
