#pragma once
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/checkpoint/manifest.h>
#include <troupe/ps/messages.h>
#include <troupe/ps/param/layout.h>

/// How the slices of any number of servers make whole tensors, without copying any: the pieces of a tensor
/// are written to a file one after the other, and read from it into slices of another layout.
namespace troupe::ps {

/// All slices of a layout, each once, indexed by SliceId; whoever sent them in whatever order. Borrows.
using SlicesById = std::vector<const SliceState*>;

/// A slice missing, doubled, of another size or with another number of state vectors is an error.
Result<SlicesById> collect(const Layout& layout, const std::vector<SliceState>& slices, size_t state_vectors);

/// Elements [offset, offset + count) of a slice.
struct Piece {
  SliceId slice = 0;
  int64_t offset = 0;
  int64_t count = 0;
  bool operator==(const Piece&) const = default;
};

/// What a range of a layer's flat parameter vector is made of, in order.
std::vector<Piece> pieces_of(const Layout& layout, LayerId layer, int64_t begin, int64_t end);

/// How many updates each range of a layer has had; and the updates of a range that is cut anew (the most of
/// any part: ranges of one layer differ only where a run ended between two servers' steps).
std::vector<UpdateRun> update_runs(const Layout& layout, LayerId layer, const SlicesById& slices);
int64_t updates_in(const std::vector<UpdateRun>& runs, int64_t begin, int64_t end);

}  // namespace troupe::ps
