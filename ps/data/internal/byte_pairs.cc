#include <troupe/ps/data/internal/byte_pairs.h>

#include <functional>
#include <queue>
#include <tuple>

namespace troupe::ps::internal {
namespace {

uint64_t key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

constexpr int32_t kGone = -1;

}  // namespace

bool BytePairs::add(int32_t left, int32_t right, int32_t joined) {
  return merges_.try_emplace(key_of(left, right), Merge{static_cast<uint32_t>(merges_.size()), joined}).second;
}

const BytePairs::Merge* BytePairs::find(int32_t left, int32_t right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

// Tokens stay where they are, linked to those that are left beside them; a pair in the queue counts only if its two
// tokens are still what they were.
void BytePairs::join(std::vector<int32_t>& tokens) const {
  const size_t n = tokens.size();
  std::vector<size_t> next(n), before(n);
  using Pair = std::tuple<uint32_t, size_t, int32_t, int32_t>;  // rank, where, left, right
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> queue;
  const auto offer = [&](size_t left, size_t right) {
    if (const Merge* merge = find(tokens[left], tokens[right]))
      queue.emplace(merge->rank, left, tokens[left], tokens[right]);
  };
  for (size_t i = 0; i < n; ++i) {
    next[i] = i + 1;
    before[i] = i - 1;  // of the first: never read
    if (i + 1 < n) offer(i, i + 1);
  }
  while (!queue.empty()) {
    const auto [rank, left, left_token, right_token] = queue.top();
    queue.pop();
    const size_t right = next[left];
    if (tokens[left] != left_token || right >= n || tokens[right] != right_token) continue;
    tokens[left] = find(left_token, right_token)->joined;
    tokens[right] = kGone;
    next[left] = next[right];
    if (next[left] < n) {
      before[next[left]] = left;
      offer(left, next[left]);
    }
    if (left > 0) offer(before[left], left);
  }
  std::erase(tokens, kGone);
}

}  // namespace troupe::ps::internal
