#include <troupe/ps/param/policy.h>

#include <algorithm>
#include <map>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

// Length of the class "[...]" that `pattern` starts with, or 0 where it is not closed and so means itself.
size_t class_length(std::string_view pattern) {
  const size_t close = pattern.find(']', 2);  // "[]a]" holds a bracket
  return pattern.starts_with('[') && close != std::string_view::npos ? close + 1 : 0;
}

bool class_holds(std::string_view members, char c) {
  for (size_t i = 0; i < members.size(); ++i) {
    if (i + 2 < members.size() && members[i + 1] == '-') {
      if (members[i] <= c && c <= members[i + 2]) return true;
      i += 2;
    } else if (members[i] == c) {
      return true;
    }
  }
  return false;
}

// How many characters of `pattern` match the one character `c`; 0 is no match.
size_t match_one(std::string_view pattern, char c) {
  if (pattern.empty()) return 0;
  if (pattern[0] == '?') return 1;
  if (const size_t length = class_length(pattern)) return class_holds(pattern.substr(1, length - 2), c) ? length : 0;
  return pattern[0] == c ? 1 : 0;
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

const char* name_of(Mode mode) {
  switch (mode) {
    case Mode::all_reduce: return "all_reduce";
    case Mode::sync: return "sync";
    case Mode::ssp: return "ssp";
    case Mode::async: return "async";
  }
  return "?";
}

std::string describe(const Policy& policy) {
  return policy.mode == Mode::ssp ? cat("ssp(", policy.staleness, ")") : name_of(policy.mode);
}

// The last star is where a mismatch goes back to: one character more belongs to it. At most
// pattern x text steps, whatever the pattern.
bool glob_matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (const size_t matched = match_one(pattern.substr(p), text[t])) {
      p += matched;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<PolicyChange> rules_by_step(const std::vector<UpdateRule>& rules) {
  std::map<int64_t, std::vector<UpdateRule>> by_step;
  for (const UpdateRule& rule : rules) by_step[rule.from_step].push_back(rule);
  std::vector<PolicyChange> changes;
  for (auto& [step, of_step] : by_step) changes.push_back({step, std::move(of_step)});
  return changes;
}

Result<std::vector<Policy>> resolve_policies(const std::vector<std::string>& layer_names,
                                             const std::vector<UpdateRule>& rules) {
  for (const auto& rule : rules) {
    if (rule.policy.staleness < 0)
      return fail(ErrorKind::invalid, cat("[[update]] layers = \"", rule.layers, "\": staleness is ",
                                          rule.policy.staleness, "; it counts steps, 0 or more"));
    if (std::ranges::none_of(layer_names, [&](const auto& name) { return glob_matches(rule.layers, name); }))
      return fail(ErrorKind::invalid, cat("[[update]] layers = \"", rule.layers, "\" matches no layer; the layers are ",
                                          list(layer_names), ". Correct the pattern or remove the table"));
  }
  std::vector<Policy> policies;
  std::vector<std::string> without;
  for (const auto& name : layer_names) {
    const auto rule = std::ranges::find_if(rules, [&](const auto& r) { return glob_matches(r.layers, name); });
    if (rule == rules.end())
      without.push_back(name);
    else
      policies.push_back(rule->policy);
  }
  if (!without.empty())
    return fail(ErrorKind::invalid, cat("no [[update]] table matches layer ", list(without),
                                        "; add one, or a last one with layers = \"*\""));
  return policies;
}

}  // namespace troupe::ps
