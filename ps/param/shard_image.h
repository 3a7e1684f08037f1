#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include <troupe/ps/messages.h>

namespace troupe::ps {

/// Everything a shard knows, as a value: what begins a replica, a compacted log, a server that is moved. A shard made
/// from it and fed the same envelopes as the one it was taken of is equal to that one bit for bit. Tensors are
/// shared with the shard until its next update.
///
/// The slot's owner may change in between: the new one waits for the Membership that names it. What is not in an
/// image is said again: pulls that wait (a worker repeats what was not answered, and asks the new server of its own
/// accord), a Snapshot that waits for a verdict, and pushes and reads held back by a recorded order; nor is the place
/// in that order, so that a run that repeats a recording takes no images.
struct ShardImage {
  Membership membership;  ///< the newest that was adopted
  struct Worker {
    Sequence high_water = 0;           ///< every push up to here was taken
    std::vector<Sequence> above;       ///< and these, ascending
    uint64_t install_round = 0;
  };
  struct Parcel {
    ParcelId id = 0;
    std::vector<Step> clock;           ///< by worker
    Step version = 0;
    int64_t updates = 0;
    struct Read {
      Step step = -1;
      int64_t updates = -1;
    };
    std::vector<Read> reads;           ///< by worker
    struct Part {
      WorkerId worker = 0;
      int64_t samples = 0;
      Step schedule_step = 0;
      bool finite = true;
      std::vector<Tensor> gradients;
      Tensor rows;                     ///< as in the Push
    };
    std::vector<Part> pending;         ///< contributions to the step that is collected
    std::vector<Tensor> previous;      ///< parameters of version - 1, one a slice; may be empty
  };
  std::vector<Worker> workers;         ///< by slot
  std::vector<Parcel> parcels;         ///< ascending
  std::vector<SliceState> slices;      ///< ascending
  std::optional<Partial> partial;      ///< sent; its verdict is awaited
  std::vector<LayerCounters> counters;
  int64_t duplicates_dropped = 0, refused = 0, skipped_steps = 0;
};

}  // namespace troupe::ps
