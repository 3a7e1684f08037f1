#include <troupe/ps/checkpoint/assemble.h>

#include <algorithm>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {

namespace {

std::string describe(const Layout& layout, const Slice& s) {
  return cat("slice ", s.id, " (", layout.layers[s.layer].name, " [", s.begin, ", ", s.end, "), server ",
             s.server, ')');
}

bool fits(const Tensor& t, const Slice& s) {
  return t && t.dtype() == DType::f32 && t.count() == s.count();
}

}  // namespace

Result<SlicesById> collect(const Layout& layout, const std::vector<SliceState>& slices,
                           size_t state_vectors) {
  SlicesById by_id(layout.slices.size(), nullptr);
  for (const SliceState& state : slices) {
    if (state.slice >= by_id.size())
      return fail(ErrorKind::invalid,
                  cat("slice ", state.slice, " is not one of the layout's ", by_id.size()));
    const Slice& slice = layout.slices[state.slice];
    if (by_id[state.slice]) return fail(ErrorKind::invalid, cat(describe(layout, slice), " was given twice"));
    if (!fits(state.values, slice) || state.state.size() != state_vectors ||
        !std::all_of(state.state.begin(), state.state.end(), [&](const Tensor& t) { return fits(t, slice); }))
      return fail(ErrorKind::invalid,
                  cat(describe(layout, slice), " came with ", state.values ? state.values.count() : 0,
                      " values and ", state.state.size(), " state vectors; ", slice.count(), " and ",
                      state_vectors, " of that length were expected"));
    by_id[state.slice] = &state;
  }
  for (const Slice& slice : layout.slices)
    if (!by_id[slice.id]) return fail(ErrorKind::invalid, cat(describe(layout, slice), " is missing"));
  return by_id;
}

std::vector<Piece> pieces_of(const Layout& layout, LayerId layer, int64_t begin, int64_t end) {
  std::vector<Piece> pieces;
  for (const Slice& s : layout.slices) {
    if (s.layer != layer || s.end <= begin || s.begin >= end) continue;
    const int64_t first = std::max(s.begin, begin), last = std::min(s.end, end);
    pieces.push_back({s.id, first - s.begin, last - first});
  }
  return pieces;
}

std::vector<UpdateRun> update_runs(const Layout& layout, LayerId layer, const SlicesById& slices) {
  std::vector<UpdateRun> runs;
  for (const Piece& piece : pieces_of(layout, layer, 0, layout.layers[layer].count)) {
    const int64_t updates = slices[piece.slice]->updates, end = layout.slices[piece.slice].end;
    if (!runs.empty() && runs.back().updates == updates)
      runs.back().end = end;
    else
      runs.push_back({end, updates});
  }
  return runs;
}

int64_t updates_in(const std::vector<UpdateRun>& runs, int64_t begin, int64_t end) {
  int64_t updates = 0, run_begin = 0;
  for (const UpdateRun& run : runs) {
    if (run_begin < end && run.end > begin) updates = std::max(updates, run.updates);
    run_begin = run.end;
  }
  return updates;
}

}  // namespace troupe::ps
