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
struct Reduce {                ///< sum over all workers, in place
  Step step = 0;
  LayerId layer = 0;
  Tensor gradient;
  /// What follows at once where there is no verdict to wait for, its gradient being the sum: the answer is then
  /// that of ApplyLocal alone.
  std::optional<ApplyLocal> apply;
};
/// Layers that go together, equal on all workers but for the gradients: the n-th bucket of each is the same one.
using Bucket = std::vector<Reduce>;
struct Fetch {                 ///< layers that lie on a device, for host memory: they are to be uploaded
  std::vector<std::pair<LayerId, SliceState>> layers;
};
struct Backward {              ///< follows the step's last Forward on the same in-order executor
  Work work;
  /// To be reduced as soon as their gradients are there and finite, which the core then hears nothing of; empty where
  /// gradients wait for the whole backward pass.
  std::vector<Bucket> buckets;
};
using Task = std::variant<Prepare, FindRows, Forward, Backward, Evaluate, Bucket, ApplyLocal, Fetch>;

}  // namespace troupe::ps
