#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/reducer.h>
#include <troupe/kernels/collective/work_share.h>
#include <troupe/kernels/tensor/executor.h>
#include <troupe/ps/param/optimizer.h>

namespace troupe {

struct LocalGroupOptions {
  size_t workers = 1;
  std::vector<LayerSpec> layers;
  std::shared_ptr<const ps::Optimizer> optimizer;
  bool norm = false;  ///< of sums, for clipping
  /// Threads that reduce while the workers' compute, made when there is something to do; only where there are cores for
  /// them. They are dropped when the first worker leaves, on its thread, while a tile may run (make_actor_queue).
  size_t helpers = 0;
  std::function<std::shared_ptr<Executor>(size_t helper)> make_helper;
  std::vector<Track> helper_tracks;  ///< one a helper; or empty
};

/// Workers of one process that all-reduce over its memory. They share one copy of the all_reduce layers, so that a step
/// sums and updates each element once, and copies nothing:
///
///     worker 0   backward: [fc3][fc2][fc1]      tiles of {fc3 fc2}, {fc1}, as long as there are any   next step
///     worker 1   backward:  [fc3]  [fc2]  [fc1] tiles                                                 next step
///
/// When the last worker has brought its n-th bucket, sum and optimizer step become a job in tiles, for the compute
/// queues that have nothing to compute, and for helpers. Whoever runs a tile, it adds the gradients in rank
/// order: the same bits as one loop. No thread waits for another. A bucket that differs from the others' n-th one
/// fails the group, with both named.
class LocalGroup : public std::enable_shared_from_this<LocalGroup> {
 public:
  explicit LocalGroup(LocalGroupOptions options);

  /// Worker `rank`'s end, once each. It helps on `compute`, seen on `track`.
  std::shared_ptr<Reducer> join(size_t rank, std::shared_ptr<Executor> compute, Track track);

 private:
  class Member;
  struct Round;
  struct Call;

  void take(size_t rank, Call call);
  void begin(std::shared_ptr<Round> round);
  void wake();
  void fail_group(const std::string& reason);
  void leave(size_t rank);

  LocalGroupOptions options_;
  WorkShare share_;

  struct Seat {
    std::shared_ptr<Executor> compute;
    Track track;
    uint64_t next = 0;    ///< round that its next call belongs to
    bool called = false;  ///< help is submitted and has not begun
  };
  std::mutex mutex_;
  std::vector<Seat> seats_;
  struct Helper {
    std::shared_ptr<Executor> queue;  ///< null until the first job
    bool called = false;
  };
  std::vector<Helper> helpers_;
  std::map<uint64_t, std::shared_ptr<Round>> rounds_;  ///< that not all have come to
  bool over_ = false;
};

}  // namespace troupe
