#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include <troupe/kernels/tensor/buffer.h>

namespace troupe::ps {

/// Tensors that the receiver of a ring reads where they are, by block of the ring: held here until it gives the block
/// back. What is counted is the memory that they keep: of a part of a tensor all of its buffer, and a buffer once,
/// however many parts of it are lent. Not thread-safe.
class Loans {
 public:
  void lend(uint32_t block, std::vector<BufferPtr> buffers) {
    if (buffers.empty()) return;
    for (const BufferPtr& buffer : buffers)
      if (times_[buffer.get()]++ == 0) bytes_ += buffer->bytes();
    lent_[block] = std::move(buffers);
  }
  /// What was lent with the block goes to `into`, to be dropped where nothing is locked: memory that goes may take
  /// locks.
  void take_back(uint32_t block, std::vector<BufferPtr>& into) {
    const auto found = lent_.find(block);
    if (found == lent_.end()) return;
    for (const BufferPtr& buffer : found->second)
      if (const auto times = times_.find(buffer.get()); --times->second == 0) {
        bytes_ -= buffer->bytes();
        times_.erase(times);
      }
    std::ranges::move(found->second, std::back_inserter(into));
    lent_.erase(found);
  }
  void take_all_back(std::vector<BufferPtr>& into) {
    while (!lent_.empty()) take_back(lent_.begin()->first, into);
  }
  bool empty() const { return lent_.empty(); }
  /// Of all buffers that are lent.
  uint64_t bytes() const { return bytes_; }
  bool has(const Buffer& buffer) const { return times_.contains(&buffer); }

 private:
  std::map<uint32_t, std::vector<BufferPtr>> lent_;
  std::map<const Buffer*, uint64_t> times_;  // how often each is lent
  uint64_t bytes_ = 0;
};

}  // namespace troupe::ps
