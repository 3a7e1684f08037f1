#pragma once
#include <functional>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe {

/// What an embedder brings to sum gradients in host memory its own way: a worker's end of it, without waiting. `done`
/// is called once, from any thread, when the sum of all workers is in `values`, or when the group was aborted. Workers
/// ask in the same order.
class AllReducer {
 public:
  virtual ~AllReducer() = default;
  virtual void all_reduce(Tensor values, std::function<void(Status, Tensor)> done) = 0;
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace troupe
