#pragma once
#include <memory>
#include <vector>

#include <troupe/actors/all_reducer.h>
#include <troupe/actors/reducer.h>
#include <troupe/kernels/tensor/executor.h>
#include <troupe/ps/param/optimizer.h>

namespace troupe {

struct OwnCopyReducerParts {
  std::shared_ptr<AllReducer> all_reducer;
  std::function<std::shared_ptr<Executor>()> make_queue;  ///< for ApplyLocal, made when the first comes
  std::vector<LayerSpec> layers;
  std::shared_ptr<const ps::Optimizer> optimizer;
  bool norm = false;  ///< of sums, for clipping
  Track track;
};

/// Workers that each hold a copy of their own in host memory: sums go through an AllReducer, and every worker takes the
/// optimizer step on its copy, where the sum comes.
std::shared_ptr<Reducer> make_own_copy_reducer(OwnCopyReducerParts parts);

}  // namespace troupe
