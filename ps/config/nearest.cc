#include <troupe/ps/config/nearest.h>

#include <algorithm>

#include <troupe/ps/config/setting.h>

namespace troupe::ps {
namespace {

constexpr size_t kFar = 1000;

bool near_enough(size_t distance, size_t length) { return distance <= std::max<size_t>(1, length / 3); }

/// How far `written` is from the name of `setting` within its table; kFar where it cannot be meant.
size_t leaf_distance(std::string_view written, const Setting& setting) {
  const std::string_view leaf = setting.leaf();
  if (written == leaf) return 0;
  if (written == setting.also) return 1;
  const size_t distance = edit_distance(written, leaf);
  if (near_enough(distance, std::max(written.size(), leaf.size()))) return distance;
  const bool part = written.size() >= 4 && leaf.size() >= 4 &&
                    (leaf.starts_with(written) || leaf.ends_with(written) || written.ends_with(leaf));
  return part ? 3 : kFar;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = kFar;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && near_enough(distance, std::max(word.size(), candidate.size()))) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string nearest_key(std::string_view key) {
  const size_t dot = key.find('.');
  const std::string_view table = dot == std::string_view::npos ? std::string_view{} : key.substr(0, dot);
  const std::string_view leaf = dot == std::string_view::npos ? key : key.substr(dot + 1);
  std::string best;
  size_t best_distance = kFar;
  for (const Setting& setting : all_settings()) {
    // Another table is a second mistake: as far as two wrong letters, unless the table itself is misspelled.
    const size_t distance = leaf_distance(leaf, setting) + std::min<size_t>(2, edit_distance(table, setting.table()));
    if (distance < best_distance) {
      best = setting.key;
      best_distance = distance;
    }
  }
  return best;
}

std::string nearest_table(std::string_view name) {
  std::vector<std::string> tables;
  for (const Setting& setting : all_settings())
    if (tables.empty() || tables.back() != setting.table()) tables.emplace_back(setting.table());
  return nearest_word(name, tables);
}

}  // namespace troupe::ps
