#pragma once
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <troupe/ps/messages.h>

namespace troupe::ps {

/// What the actor gives its executors to do. Each but Prepare and Forward is answered by a call of WorkerCore.
struct Prepare {
  Work work;  ///< the next step; given behind the last task of the one that runs
};
struct FindRows {
  Work work;  ///< of its batch: which rows of the layers by rows it reads; between two steps, as Prepare is
};
struct Forward {
  Work work;
  size_t first = 0, last = 0;  ///< layers whose weights have come; ranges of a step are adjacent, ascending. Those of
                               ///< other stages are among them, without weights
};
struct Evaluate {
  Work work;
};
struct ApplyLocal {            ///< one optimizer step on the worker's own copy
  Step step = 0;
  Step schedule_step = 0;
  LayerId layer = 0;
  Tensor gradient;             ///< reduced
  double gradient_scale = 1;   ///< 1 / samples
  double clip_scale = 1;       ///< of everything but statistics
  SliceState local;            ///< values are not written (a running step may read them), state is
};
struct HostShare {             ///< a worker's part of what the devices of its host add up
  Generation generation = 0;   ///< of the group that is meant
  int64_t samples = 0;
  bool finite = true;
};
struct Reduce {                ///< sum over all workers, in place
  Step step = 0;
  LayerId layer = 0;
  Tensor gradient;
  /// What follows at once where there is no verdict to wait for, its gradient being the sum: the answer is then
  /// that of ApplyLocal alone.
  std::optional<ApplyLocal> apply;
  std::optional<HostShare> host;  ///< over the devices of this worker's host alone: a HostSum
};
struct HostSum {               ///< of a bucket
  Step step = 0;
  std::vector<std::pair<LayerId, Tensor>> layers;  ///< in host memory; empty tensors on all but the lowest worker
  int64_t samples = 0;         ///< of all who are in it
  bool finite = true;
  bool alone = false;          ///< there is no such group any more: this is the worker's own gradient
};
/// Layers that go together, equal on all workers but for the gradients: the n-th bucket of each is the same one.
using Bucket = std::vector<Reduce>;
/// Weights that a step begins with, which the lowest worker of a host has and gives to the devices of all; equal on all
/// workers but for the parts, and given behind the last sum of the step before.
struct Broadcast {
  struct Part {                ///< elements of layers[layer] from `begin` on, in host memory
    size_t layer = 0;
    int64_t begin = 0;
    Tensor values;
  };
  Step step = 0;
  Generation generation = 0;   ///< of the group that is meant
  std::vector<LayerId> layers;
  std::vector<Part> parts;     ///< all of them; on the other workers none
};
/// Answers Broadcast; nothing does where there is no such group any more.
struct HostWeights {
  Step step = 0;
  Generation generation = 0;
  std::vector<std::pair<LayerId, Tensor>> layers;  ///< on the device, whole, all that was written to them done
};
struct MakeGroup {             ///< what the members of a new group need to join (CollectiveId)
  Generation generation = 0;
};
/// Answered twice: when it begins to wait, with the id, and with the first step that all take together, the highest
/// `first`.
struct JoinGroup {
  Generation generation = 0;
  int rank = 0, size = 1;
  std::string id;
  Step first = 0;
  uint64_t plan = 0;           ///< GroupSeat's: of sums and broadcasts
  std::vector<std::vector<LayerId>> summed = {}, given = {};  ///< layers of each sum, of each broadcast
};
/// The group is no more. Whoever waits in it is woken, and each bucket of the step that runs is answered by this
/// worker's own gradients, those that have been summed as well. A Broadcast that has not been answered is not any more.
struct LeaveGroup {};
/// Layers that lie on a device, for host memory: they are to be uploaded, or a group that has ended gave them for the
/// step that waits.
struct Fetch {
  std::vector<std::pair<LayerId, SliceState>> layers;
};
struct Backward {              ///< follows the step's last Forward on the same in-order executor
  Work work;
  /// To be reduced as soon as their gradients are there and finite, which the core then hears nothing of; empty where
  /// gradients wait for the whole backward pass.
  std::vector<Bucket> buckets;
  std::vector<size_t> stay;    ///< layers whose gradients are summed on the device: they stay there
};
using Task = std::variant<Prepare, FindRows, Forward, Backward, Evaluate, Bucket, ApplyLocal, Fetch, MakeGroup,
                          JoinGroup, LeaveGroup, Broadcast>;

}  // namespace troupe::ps
