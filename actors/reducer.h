#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <troupe/actors/mail.h>
#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/result.h>
#include <troupe/kernels/base/trace.h>

namespace troupe {

/// What `work` comes to; what it throws is a failure too.
template <class Work>
Status status_of(const Work& work) {
  try {
    return work();
  } catch (const std::exception& e) {
    return fail(ErrorKind::failed, e.what());
  }
}

/// A worker's end of its group: what it does about all_reduce layers. Nothing waits; what comes of it is reported
/// later, from any thread. The workers of a group make the same calls in the same order, but for the gradients.
class Reducer {
 public:
  using Report = std::function<void(TaskDone)>;
  virtual ~Reducer() = default;

  /// Sums each of the bucket's gradients over the group, in rank order. ApplyDone where the tasks say what is done with
  /// the sum, else a ReduceDone for each. From the worker's actor or its compute queue, never at once.
  virtual void reduce(ps::Bucket bucket, Report report) = 0;
  /// One optimizer step with a sum: ApplyDone.
  virtual void apply(ps::ApplyLocal task, Report report) = 0;
  /// Of a gradient that lies on the device of this end: the sum of squares that clipping wants (0 unless it does), and
  /// whether all elements are finite. From the compute queue, where it waits; what failed on the device is thrown.
  virtual std::pair<double, bool> measure(ps::LayerId layer, const Tensor& gradient) {
    TROUPE_CHECK(false, "a gradient of layer ", layer, " on device ", gradient.device().index,
                 " of a group of the CPU");
  }
  /// Layers on the device, no task that writes to them being under way, into host memory: FetchDone. Those that
  /// reduce in host memory are never asked.
  virtual void fetch(ps::Fetch task, Report report) {
    TROUPE_CHECK(!report, task.layers.size(), " layers on a device, of a group of the CPU");
  }
  /// The group of a host's devices, which may be in several processes: GroupKnown; GroupKnown and GroupJoined, or
  /// nothing where it has been left since; and what LeaveGroup says. Asked only of those that have such a group.
  virtual void make_group(ps::MakeGroup task, Report report) {
    TROUPE_CHECK(!report, "no group can be made in generation ", task.generation);
  }
  virtual void join_group(ps::JoinGroup task, Report report) {
    TROUPE_CHECK(!report, "no group can be joined in generation ", task.generation);
  }
  virtual void leave_group(Report report) { TROUPE_CHECK(!report, "no group can be left"); }
  /// HostWeights, or nothing where that group has been left.
  virtual void broadcast(ps::Broadcast task, Report report) {
    TROUPE_CHECK(!report, "no group gives its members weights of step ", task.step);
  }
  /// Nothing more is reported to anybody; for a worker that ends, whom the others cannot do without.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace troupe
