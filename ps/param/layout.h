#pragma once
#include <memory>
#include <vector>

#include <troupe/kernels/nn/gradient_source.h>
#include <troupe/ps/ids.h>
#include <troupe/ps/param/policy.h>

namespace troupe::ps {

/// A contiguous range of one layer's flat parameter vector, held by one server.
struct Slice {
  SliceId id = 0;
  LayerId layer = 0;
  int64_t begin = 0;  ///< elements, a multiple of 16 (64 bytes); of a layer by rows, where a row begins, too
  int64_t end = 0;
  ServerId server = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const Slice&) const = default;
};

/// What travels as one message: one slice of a large layer, or several small slices of layers with the same
/// policy on the same server ("fused"); a slice of a layer by rows is a parcel of its own. Pushes, pulls,
/// acknowledgements and clocks count parcels.
struct Parcel {
  ParcelId id = 0;
  ServerId server = 0;
  Policy policy;
  std::vector<SliceId> slices;  ///< ascending layer, then begin
  /// What the next forward pass needs first travels first: the lowest layer in it.
  LayerId priority = 0;
};

/// Who holds what, and how each layer is kept in step. Immutable once made; one per generation. A layer under
/// `all_reduce` has slices too: its servers are its home, written when a checkpoint is taken or its policy
/// changes, read by a worker that starts.
struct Layout {
  std::vector<LayerSpec> layers;
  std::vector<Policy> policies;  ///< by layer
  std::vector<Slice> slices;     ///< ascending layer, then begin
  std::vector<Parcel> parcels;
  uint32_t servers = 1;
  /// Workers that make up one replica of the model, each of which computes some layers: worker w is stage w % stages of
  /// replica w / stages. A parcel holds layers of one stage, whose workers alone contribute to it; all may read it.
  uint32_t stages = 1;
  std::vector<uint32_t> stage_of;  ///< by layer, the stage that computes its gradient; empty: one stage

  uint32_t stage_of_layer(LayerId layer) const { return stage_of.empty() ? 0 : stage_of[layer]; }
  uint32_t stage_of_parcel(const Parcel& parcel) const { return stage_of_layer(slices[parcel.slices.front()].layer); }
  bool contributes(WorkerId worker, const Parcel& parcel) const {
    return stages == 1 || worker % stages == stage_of_parcel(parcel);
  }

  /// Any layer that makes all workers take steps together.
  bool lockstep() const;
  bool any(Mode mode) const;
};

struct LayoutOptions {
  uint32_t servers = 1;
  /// Layers larger than this are cut into slices spread over the servers, if there is more than one or it is in another
  /// process. Smaller slices balance better and overlap more; each costs a message, and workers copy a layer that is
  /// cut, while they share the server's memory of one that is whole. Where slices of this size would leave the servers
  /// more than a tenth out of balance they are halved, down to `fuse_bytes`.
  int64_t slice_bytes = 4 << 20;
  /// Slices smaller than this are fused into parcels up to this size.
  int64_t fuse_bytes = 64 << 10;
  /// Servers and workers are in different processes: layers are cut even for one server, since of what is cut a part is
  /// on its way while another is worked on.
  bool spread = false;
  /// Never cut a layer (LAMB needs the norm of whole tensors on one server).
  bool whole_layers = false;
  uint32_t stages = 1;             ///< Layout::stages
  std::vector<uint32_t> stage_of;  ///< Layout::stage_of
};

/// Pure and deterministic: the same layers, policies and options give the same layout on every node. Bytes
/// are balanced over the servers (largest slice first, to the least loaded); more servers than slices is
/// legal. Slices do not depend on the policies, so that a policy change moves no bytes.
Layout make_layout(std::vector<LayerSpec> layers, std::vector<Policy> policies, const LayoutOptions& options);

/// Bytes of parameters a server holds, by server; and max / mean of them (1 is perfect).
std::vector<int64_t> bytes_by_server(const Layout& layout);
double imbalance(const Layout& layout);

}  // namespace troupe::ps
