#pragma once
#include <optional>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/base/text.h>
#include <troupe/ps/ids.h>

namespace troupe::ps {

/// Who may append to a store in memory: the generation that opened it last, and those that its actor has lived
/// through since. Refusals are ErrorKind::cancelled.
class Fence {
 public:
  Status open(Generation generation) {
    if (newest_ && generation <= *newest_)
      return fail(ErrorKind::cancelled,
                  cat("the store was opened by generation ", *newest_, ", not to be opened by ", generation));
    newest_ = generation;
    return {};
  }
  Status pass(Generation generation) {
    if (newest_ && generation < *newest_)
      return fail(ErrorKind::cancelled, cat("the store was taken from generation ", generation, " by ", *newest_));
    newest_ = generation;
    return {};
  }

 private:
  std::optional<Generation> newest_;
};

}  // namespace troupe::ps
