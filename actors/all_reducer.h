#pragma once
#include <functional>
#include <memory>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/collective/communicator.h>
#include <troupe/kernels/tensor/executor.h>

namespace troupe {

/// A worker's end of its group's all-reduce, without waiting: `done` is called once, from any thread, when the
/// sum of all workers is in `values`, or when the group was aborted. Workers ask in the same order.
class AllReducer {
 public:
  virtual ~AllReducer() = default;
  virtual void all_reduce(Tensor values, std::function<void(Status, Tensor)> done) = 0;
  virtual void abort(const std::string& reason) = 0;
};

/// Over a communicator whose calls block: they wait on `executor`, which is this worker's alone.
std::unique_ptr<AllReducer> make_all_reducer(std::unique_ptr<Communicator> communicator,
                                             std::shared_ptr<Executor> executor);

}  // namespace troupe
