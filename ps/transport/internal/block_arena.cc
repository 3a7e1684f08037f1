#include <troupe/ps/transport/internal/block_arena.h>

#include <algorithm>
#include <utility>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {
namespace {

// At least one unit, so that every block has a place of its own.
uint64_t rounded(uint64_t bytes) {
  constexpr uint64_t k = BlockArena::kAlignment;
  return std::max(k, (bytes + k - 1) / k * k);
}

}  // namespace

std::optional<uint64_t> BlockArena::take(uint64_t bytes) {
  if (free_.empty() || bytes > free_.back().end) return std::nullopt;  // also: rounding it up cannot overflow
  const uint64_t size = rounded(bytes);
  const auto holds = [&](const Gap& g) { return g.end - g.begin >= size; };
  if (size < kLargeBytes) {
    const auto gap = std::find_if(free_.begin(), free_.end(), holds);
    if (gap == free_.end()) return std::nullopt;
    const uint64_t offset = std::exchange(gap->begin, gap->begin + size);
    if (gap->begin == gap->end) free_.erase(gap);
    return offset;
  }
  const auto gap = std::find_if(free_.rbegin(), free_.rend(), holds);
  if (gap == free_.rend()) return std::nullopt;
  const uint64_t offset = gap->end -= size;
  if (gap->begin == gap->end) free_.erase(std::prev(gap.base()));
  return offset;
}

void BlockArena::give_back(uint64_t offset, uint64_t bytes) {
  const uint64_t end = offset + rounded(bytes);
  auto next = std::find_if(free_.begin(), free_.end(), [&](const Gap& g) { return g.begin > offset; });
  TROUPE_CHECK(next == free_.end() || end <= next->begin, "given back twice: ", offset);
  const bool joins_next = next != free_.end() && next->begin == end;
  if (next != free_.begin() && std::prev(next)->end >= offset) {
    const auto previous = std::prev(next);
    TROUPE_CHECK(previous->end == offset, "given back twice: ", offset);
    previous->end = joins_next ? next->end : end;
    if (joins_next) free_.erase(next);
  } else if (joins_next) {
    next->begin = offset;
  } else {
    free_.insert(next, {offset, end});
  }
}

uint64_t BlockArena::free_bytes() const {
  uint64_t sum = 0;
  for (const Gap& gap : free_) sum += gap.end - gap.begin;
  return sum;
}

}  // namespace troupe::ps
