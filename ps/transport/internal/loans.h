#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include <troupe/kernels/tensor/buffer.h>

namespace troupe::ps {

/// Tensors that the receiver of a ring reads where they are, by block of the ring: held here until it gives the block back.
/// Not thread-safe.
class Loans {
 public:
  void lend(uint32_t block, std::vector<BufferPtr> buffers, uint64_t bytes) {
    if (buffers.empty()) return;
    bytes_ += bytes;
    lent_[block] = {std::move(buffers), bytes};
  }
  /// What was lent with the block goes to `into`, to be dropped where nothing is locked: memory that goes may take locks.
  void take_back(uint32_t block, std::vector<BufferPtr>& into) {
    const auto found = lent_.find(block);
    if (found == lent_.end()) return;
    bytes_ -= found->second.bytes;
    std::ranges::move(found->second.buffers, std::back_inserter(into));
    lent_.erase(found);
  }
  void take_all_back(std::vector<BufferPtr>& into) {
    while (!lent_.empty()) take_back(lent_.begin()->first, into);
  }
  bool empty() const { return lent_.empty(); }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Loan {
    std::vector<BufferPtr> buffers;
    uint64_t bytes = 0;
  };
  std::map<uint32_t, Loan> lent_;
  uint64_t bytes_ = 0;
};

}  // namespace troupe::ps
