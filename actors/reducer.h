#pragma once
#include <functional>
#include <memory>
#include <string>

#include <troupe/actors/mail.h>
#include <troupe/kernels/base/trace.h>

namespace troupe {

/// A worker's end of its group: what it does about all_reduce layers. Nothing waits; what comes of it is reported later,
/// from any thread. The workers of a group make the same calls in the same order, but for the gradients.
class Reducer {
 public:
  using Report = std::function<void(TaskDone)>;
  virtual ~Reducer() = default;

  /// Sums each of the bucket's gradients over the group, in rank order. ApplyDone where the tasks say what is done with
  /// the sum, else a ReduceDone for each. From the worker's actor or its compute queue, never at once.
  virtual void reduce(ps::Bucket bucket, Report report) = 0;
  /// One optimizer step with a sum: ApplyDone.
  virtual void apply(ps::ApplyLocal task, Report report) = 0;
  /// The compute queue has done its backward pass: it may work on what is to be reduced.
  virtual void help() {}
  /// Nothing more is reported to anybody; for a worker that ends, whom the others cannot do without.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace troupe
