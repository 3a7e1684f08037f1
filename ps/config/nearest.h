#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace troupe::ps {

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string
/// alignment; cost |a| x |b|).
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word` if it is near enough to be meant (a third of its length), else "".
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

/// The setting most likely meant by `key` ("train.epoch", "epochs", "model.lr", "parallel.num_workers"):
/// a near spelling, the same name in another table, or what other programs call it. "" if nothing is near.
std::string nearest_key(std::string_view key);

/// The table most likely meant by `name` ("trian"), or "".
std::string nearest_table(std::string_view name);

}  // namespace troupe::ps
