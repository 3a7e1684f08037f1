#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace troupe::ps::internal {

/// The merges of a byte-pair vocabulary, by their rank: the lower, the earlier a pair is joined.
class BytePairs {
 public:
  /// In the order of ranks. False where the pair has a rank already.
  bool add(int32_t left, int32_t right, int32_t joined);

  /// Joins neighbours of `tokens` until no merge fits: of all pairs that can be joined always the one of lowest rank,
  /// the leftmost of equals. Takes n log n steps for n tokens.
  void join(std::vector<int32_t>& tokens) const;

 private:
  struct Merge {
    uint32_t rank;
    int32_t joined;
  };
  const Merge* find(int32_t left, int32_t right) const;

  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace troupe::ps::internal
